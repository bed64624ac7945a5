"""The folder of an analysis."""

import json
import math

import pytest
from oracles.report_inputs import BACKBONE

from cplsr.analysis import findings
from cplsr.analysis.findings import check_output, write_analysis
from cplsr.errors import InputError
from cplsr.records.analysis import (
    Analysis,
    AttentionPicture,
    BoundTerms,
    CostRow,
    DomainAnalysis,
    HeadChange,
    Measures,
    Panel,
)

PNG = b"\x89PNG\r\n\x1a\n and so on"


def analysis(**more):
    measures = Measures(math.inf, {1: BoundTerms(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)}, None, [[0.5, 0.25]], [[0.1, 0.2]])
    content = {"heads": (), "cost": (), "umap": None, "attention": (), "notes": ("a remark",)} | more
    return Analysis(
        backbone=BACKBONE,
        adapter=None,
        versions={"cplsr": "0"},
        settings={"way": 5},
        domains={"leaf": DomainAnalysis(10, measures, None)},
        **content,
    )


def full():
    return analysis(
        heads=(HeadChange(0, 1, 2.0, 0.0, 1.0, math.inf, 0.5, -0.25),),
        cost=(CostRow("frozen", 32, 17, 0, 1000, 0.5), CostRow("attn_scale", 32, 17, 578, 1100, None)),
        umap="umap.json",
        panels=(Panel("leaf", "before", ("a", "b"), (0, 1), (0.0, 1.0), (1.0, 0.0)),),
        attention=(AttentionPicture("leaf", "a/1.png", "attention/leaf-0.png", PNG),),
    )


def test_the_folder_holds_what_the_json_names(tmp_path):
    write_analysis(full(), tmp_path / "out")
    content = json.loads((tmp_path / "out" / "analysis.json").read_text(encoding="utf-8"))
    assert content["umap"] == "umap.json"
    assert content["attention"] == [{"domain": "leaf", "image": "a/1.png", "file": "attention/leaf-0.png"}]
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert files == {"analysis.json", "umap.json", "umap.png", "cost.png", "attention/leaf-0.png"}
    assert content == full().to_json()


def test_json_has_the_fixed_names_and_null_for_what_is_infinite():
    content = full().to_json()
    before = content["domains"]["leaf"]["before"]
    assert before["within_between"] is None
    assert before["bound"] == {
        "1": {"V_tr": 1.0, "V_wit": 2.0, "Ed2": 3.0, "base_term": 4.0, "tr_sigma": 5.0, "tr_sigma_tau": 6.0}
    }
    assert content["domains"]["leaf"]["after"] is None
    assert content["heads"] == [
        {"layer": 0, "head": 1, "distance": 2.0, "singular_min": 0.0, "singular_max": 1.0, "condition": None,
         "asymmetry": 0.5, "entropy_change": -0.25}
    ]  # fmt: skip
    assert content["cost"][1]["seconds"] is None
    assert analysis().to_json()["umap"] is None


def test_without_pictures_there_is_one_file_and_an_older_analysis_is_replaced(tmp_path):
    write_analysis(full(), tmp_path / "out")
    write_analysis(analysis(), tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["analysis.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_other_peoples_files_are_not_overwritten(tmp_path):
    (tmp_path / "analysis.json").write_text("{}")
    check_output(tmp_path)
    check_output(tmp_path / "absent")
    (tmp_path / "thesis.tex").write_text("years of work")
    for path in (tmp_path, tmp_path / "thesis.tex"):
        with pytest.raises(InputError, match="not overwritten"):
            write_analysis(analysis(), path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_what_was_written_is_read_again(tmp_path):
    write_analysis(full(), tmp_path / "out")
    assert Analysis.read(tmp_path / "out") == full()


def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(panels, path):
        raise OSError("disk full")

    monkeypatch.setattr(findings, "draw_panels", fail)
    with pytest.raises(OSError, match="disk full"):
        write_analysis(full(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
