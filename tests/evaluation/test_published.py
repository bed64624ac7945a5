import re
from dataclasses import replace

import pytest

from cplsr.data.catalog import CATALOG
from cplsr.errors import InputError
from cplsr.evaluation.published import (
    PAPER_TABLES,
    TABLES,
    another_backbone,
    benchmark_target,
    comparable_methods,
    obstacles,
    published_table,
    remarks_beside,
    remarks_on_data,
)
from cplsr.records.estimate import Estimate
from cplsr.records.results import AccuracyRow, Results

LABELS = {
    "mini": "results_mini",
    "tiered": "results_tiered",
    "ablation": "ablation_mini",
    "ablation-details": "ablation_details_mini",
}
WORDS = {r"\Gls{ours}": "CPLSR", r"\acrshort{cp}": "CP", r"\acrshort{pe}": "PE", r"\acrshort{sst}": "SST"}
NUMBER = r"\d+\.\d+"


def printed_table(source, name):
    """(shot, system, architecture, cells, average) of each row of a table, read from the paper's source."""
    end = source.index(rf"\label{{table:{LABELS[name]}}}")
    body = source[source.rindex(r"\begin{tabular}", 0, end) : end]
    shot, rows = 0, []
    for line in re.split(r"\\\\", body):
        parts = [part.strip() for part in line.split("&")]
        if len(parts) < 6:
            continue
        if head := re.search(r"(\d)-shot$", parts[0]):
            shot = int(head[1])
            continue
        system = re.sub(r"\\(hline|toprule|bottomrule)|\\cite\{\w+\}\.?", "", parts.pop(0))
        for macro, word in WORDS.items():
            system = system.replace(macro, word)
        system = re.sub(r"\\textbf\{(.*)\}", r"\1", system).strip()
        architecture = parts.pop(0) if len(parts) == 6 else None
        *cells, average = ([float(number) for number in re.findall(NUMBER, part)] for part in parts)
        rows.append((shot, system, architecture, tuple(Estimate(*cell) for cell in cells), *average))
    return rows


@pytest.mark.real_data
@pytest.mark.parametrize("name", PAPER_TABLES)
def test_every_figure_is_the_papers(real_data, name):
    sources = sorted((real_data / "paper").glob("*.tex*"))
    if not sources:
        pytest.skip("there is no paper/*.tex* in the folder that CPLSR_REAL_DATA names")
    printed = printed_table(sources[0].read_text(encoding="utf-8"), name)

    table = published_table(name)

    assert len(printed) == len(table.rows)
    for row, (shot, system, architecture, cells, average) in zip(table.rows, printed, strict=True):
        ours = row.system.removesuffix(f"-{architecture}")  # FAP is there with two architectures
        assert (row.shot, ours, row.architecture) == (shot, system, architecture)
        assert (tuple(row.cells.values()), row.average) == (cells, average)


def test_averages_are_those_of_the_cells_but_for_the_known_slip():
    wrong = [
        (name, row.system, row.shot, row.average, round(row.mean, 2))
        for name in TABLES
        for row in published_table(name).rows
        if row.average_disagrees
    ]

    assert wrong == [("tiered", "PMF", 5, 63.01, 63.26)]
    assert any("63.26" in note and "63.01" in note for note in published_table("tiered").notes)


def test_the_tables_are_whole():
    counts = {name: len(published_table(name).rows) for name in PAPER_TABLES}
    assert counts == {"mini": 24, "tiered": 10, "ablation": 14, "ablation-details": 20}
    for name in PAPER_TABLES:
        table = published_table(name)
        assert table.shots == (1, 5)
        assert {len({row.system for row in table.rows if row.shot == shot}) for shot in (1, 5)} == {counts[name] // 2}
        assert set(table.targets) == {entry.title for entry in CATALOG.values() if entry.role == "target"}
        for row in table.rows:
            assert all(20 < cell.mean < 100 for cell in row.cells.values())
            assert all(cell.half_width is None or 0.1 < cell.half_width < 1.2 for cell in row.cells.values())


def test_intervals_are_missing_exactly_where_none_was_printed():
    missing = [
        (row.system, row.shot)
        for name in PAPER_TABLES
        for row in published_table(name).rows
        if any(cell.half_width is None for cell in row.cells.values())
    ]

    assert missing == [("LDP-Net", 1), ("LDP-Net", 5), ("PMF", 5)]
    assert published_table("mini").row("AFA", 1).cells["EuroSAT"] == Estimate(63.12, 0.5)
    assert published_table("mini").row("AFA", 2) is None


def test_methods_since_have_cells_that_average_as_printed_or_an_average_alone():
    table = published_table("since")
    assert table.base == "mini-ImageNet"
    assert table.targets == published_table("mini").targets
    with_cells = {(row.system, row.shot): round(row.mean, 2) for row in table.rows if row.cells}
    assert with_cells == {
        ("CD-CLS", 1): 53.68, ("AttnTemp", 1): 54.12, ("CD-CLS", 5): 66.1, ("AttnTemp", 5): 66.62, ("REAP", 5): 66.75,
    }  # fmt: skip
    assert table.row("ReCIT, tuned", 5).average == 68.06
    assert table.row("REAP", 1) is None
    notes = " ".join(table.notes)
    assert all(words in notes for words in ("DINO ViT-S/16", "NeurIPS 2024", "ICML 2025", "every epoch on each target"))
    assert published_table("mini").row("AttnTemp", 5) is None  # beside one's own figures stand those of the paper


def test_the_frozen_backbone_and_the_ablation_agree_across_tables():
    for shot in (1, 5):
        dino = published_table("mini").row("DINO", shot)
        assert published_table("tiered").row("DINO", shot).cells == dino.cells
        for name in ("ablation", "ablation-details"):
            assert published_table(name).row("DINO (Frozen)", shot).cells == dino.cells
            whole = published_table(name).row("CP + PE + SST", shot)
            assert whole.cells == published_table("mini").row("CPLSR", shot).cells


def test_figures_by_table_system_and_shot():
    assert published_table("mini").row("CPLSR", 5).cells["CropDisease"] == Estimate(94.96, 0.14)
    assert published_table("tiered").row("CPLSR", 5).cells["CropDisease"] == Estimate(94.94, 0.14)
    assert published_table("mini").row("CPLSR", 20) is None
    assert benchmark_target("mine", "euro_sat") == "EuroSAT"
    assert benchmark_target("mini-ImageNet") is None  # no target
    with pytest.raises(InputError, match="no table 'maxi'"):
        published_table("maxi")


def results(
    *, methods=("frozen", "CP"), name="ISIC", images=10_015, classes=7, way=5, size=224, queries="balanced", **shape
):
    backbone = {"layers": 12, "dim": 384, "heads": 6, "patch_size": 16, "image_size": size, **shape}
    rows = [
        AccuracyRow(method, "skin", shot, way, 15, 9, 0, None, 50.0, 1.0, queries=queries)
        for method in methods
        for shot in (1, 5, 20)
    ]
    data = {"skin": {"name": name, "images": images, "classes": {f"class {c}": 9 for c in range(classes)}}}
    return Results(rows=tuple(rows), settings={"backbone": backbone}, data=data)


def test_methods_that_answer_as_the_papers():
    ridge = results(methods=("frozen", "frozen ridge", "CP ridge"))
    ridge = replace(ridge, settings={**ridge.settings, "adapters": [{"name": "CP"}]})
    assert comparable_methods(ridge) == ["frozen"]
    assert comparable_methods(results()) == ["frozen", "CP"]


@pytest.mark.parametrize(
    ("given", "said", "shown"),
    [
        ({"images": 532}, "skin: the data is a sample (532 of 10,015 images): not comparable", True),
        ({"images": 11_720}, "not the benchmark's (11,720 images of 7 classes, not 10,015 of 7)", True),
        ({"classes": 6}, "not the benchmark's (10,015 images of 6 classes, not 10,015 of 7)", True),
        ({"size": 112}, "images are of 112 px, the paper's of 224 px", True),
        ({"dim": 192, "heads": 3}, "another backbone (12 layers, 192 wide, 3 heads, patch 16; the paper's", False),
        ({"patch_size": 8}, "another backbone", False),
        ({"way": 7}, "episodes are 7-way, the paper's 5-way", False),
        ({"queries": "dirichlet"}, "queries are spread unevenly over the classes, the paper's evenly", False),
        ({"pooling": "depth"}, "answer by prototypes of the last class token; frozen, CP answer otherwise", False),
        (
            {"methods": ("frozen ridge",)},
            "prototypes of the last class token; frozen ridge answers otherwise",
            False,
        ),
        ({"methods": ("frozen", "frozen ridge", "frozen em")}, "; frozen ridge, frozen em answer otherwise", True),
    ],
)
def test_what_is_not_comparable_is_said_in_a_remark(given, said, shown):
    reasons, remarks = obstacles(results(**given)), remarks_beside(results(**given))

    assert (reasons == []) == shown
    assert len(remarks) == 1
    assert said in remarks[0]
    assert shown or remarks == reasons


def test_remarks_by_themselves():
    assert another_backbone(results()) is None
    assert remarks_on_data(results()) == ()
