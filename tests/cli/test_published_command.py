"""`cplsr published`, as it is called."""

import csv
import io

import pytest
from oracles.report_inputs import VIT_S16

from cplsr.cli.published import main
from cplsr.errors import InputError
from cplsr.evaluation.published import TABLES
from cplsr.records.results import AccuracyRow, Results


@pytest.fixture
def results_file(tmp_path):
    def write(targets, way=5, shots=(1, 5, 20), **shape):
        rows = [
            AccuracyRow(method, target, shot, way, 15, 100, 0, None, 50.0 + number, None if method == "frozen" else 0.3)
            for method in ("frozen", "CP [x]")
            for number, target in enumerate(targets)
            for shot in shots
        ]
        backbone = {**VIT_S16, "source": "hub/vit", **shape}
        data = {target: {"images": 100, "classes": {"a": 100}} for target in targets}
        Results(rows=tuple(rows), settings={"backbone": backbone}, data=data).write(tmp_path / "results.json")
        return str(tmp_path / "results.json")

    return write


@pytest.fixture
def printed(capsys):
    """What the command prints, called with some words."""

    def call(*words):
        assert main(list(words)) == 0
        return capsys.readouterr().out

    return call


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_every_table_is_offered_and_printed(printed):
    for name in TABLES:
        assert len(read_csv(printed(name, "--format", "csv"))) in (24, 10, 14, 20, 13)
    assert printed("--format", "csv").count("CropDisease") == 5


def test_the_best_of_each_column_and_shot_is_bold_as_in_the_paper(printed):
    lines = printed("mini", "--format", "markdown").splitlines()
    bold = [line for line in lines if "**" in line and line.startswith("|")]
    assert [line.split("|")[2].strip() for line in bold] == ["FAP-GNN", "CPLSR", "PMF", "CPLSR"]
    assert (
        "| 1 | CPLSR | ViT-S | **22.95 ±0.14** | 33.38 ±0.20 | **74.57 ±0.27** | **83.10 ±0.26** | **53.50** |" in lines
    )
    assert "| 1 | LDP-Net | RN-10 | 22.21 | 33.44 | 73.25 | 81.26 | 52.54 |" in lines


def test_an_average_that_stands_alone_and_where_the_figures_are_from(printed):
    text = printed("since", "--format", "markdown")
    assert "| 1 | REAP, tuned | ViT-S |  |  |  |  | **56.04** |" in text
    assert "| 5 | AttnTemp | ViT-S | 27.72 | **53.09** | 90.13 | 95.53 | 66.62 |" in text
    assert "AttnTemp: Zou et al., NeurIPS 2024" in text


def test_a_printed_average_that_is_wrong_is_flagged(printed):
    text = printed("tiered", "--format", "markdown")
    assert "| 63.01* |" in text
    assert "the cells average 63.26" in text
    assert "* printed so, but not the average of the cells" in text


def test_latex(printed):
    text = printed("ablation", "--format", "latex")
    assert r"1 & CP + PE + SST & \textbf{22.95 $\pm$0.14}" in text
    assert text.count(r"\\") == 15


@pytest.mark.parametrize("columns", ["80", "200"])
def test_no_word_is_cut_short_on_a_terminal(monkeypatch, printed, columns):
    monkeypatch.setenv("COLUMNS", columns)

    text = printed()
    assert "…" not in text
    assert "StyleAdv" in text
    assert ("base set tiered-ImageNet, 5-shot" in text) == (columns == "80")


def test_ones_own_rows_stand_below_those_of_their_shot(results_file, printed):
    rows = read_csv(printed("tiered", "--format", "csv", "--beside", results_file(["EuroSAT", "isic", "other"])))
    assert [(row["shot"], row["system"]) for row in rows if row["system"].startswith("→")] == [
        ("1", "→ frozen"), ("1", "→ CP [x]"), ("5", "→ frozen"), ("5", "→ CP [x]"),
    ]  # fmt: skip
    assert [row["shot"] for row in rows] == ["1"] * 7 + ["5"] * 7
    own = rows[6]
    assert (own["EuroSAT"], own["ISIC"], own["ChestX"], own["average"]) == ("50.00 ±0.30", "51.00 ±0.30", "", "")
    assert own["backbone"] == "vit"


def test_an_average_where_all_four_targets_are_there(results_file, printed):
    file = results_file(["ChestX", "ISIC", "EuroSAT", "CropDisease"], shots=(5,))
    rows = read_csv(printed("ablation", "--format", "csv", "--beside", file))
    own = [row for row in rows if row["system"].startswith("→")]
    assert [(row["shot"], row["average"]) for row in own] == [("5", "51.50"), ("5", "51.50")]


def test_what_is_not_comparable_is_said(results_file, printed):
    text = printed("mini", "--format", "markdown", "--beside", results_file(["EuroSAT"], way=3, dim=192, heads=3))
    for words in ("→ episodes are 3-way", "→ another backbone (12 layers, 192 wide", "sample (100 of 27,000 images)"):
        assert words in text
    with pytest.raises(InputError, match="the results are on leaf, the paper's on ChestX"):
        main(["mini", "--beside", results_file(["leaf"])])
    with pytest.raises(InputError, match=r"cannot be read .*give the path of results"):
        main(["mini", "--beside", "no-such-file.json"])
