"""`cplsr report`, as it is called."""

import pytest
from oracles import report_inputs
from oracles.fresh_process import heavy_after

from cplsr.cli import EXIT_BAD_INPUT
from cplsr.cli import main as cplsr


@pytest.fixture
def everything(tmp_path):
    return report_inputs.write_everything(tmp_path / "all")


def test_a_folder_becomes_a_page(everything, tmp_path, capsys):
    out = tmp_path / "deep" / "page.html"
    assert cplsr(["report", str(everything), "--out", str(out), "--title", "My <title>"]) == 0
    said = capsys.readouterr().out
    assert str(out) in said
    assert "Accuracy" in said
    page = out.read_text(encoding="utf-8")
    assert "<h1>My &lt;title&gt;</h1>" in page
    assert "cplsr report" in page


def test_several_inputs(everything, tmp_path):
    out = tmp_path / "page.html"
    assert cplsr(["report", str(everything / "run"), str(everything / "results.json"), "--out", str(out)]) == 0
    assert "Training" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize("arguments", [[], ["{tmp}/nothing"], ["{tmp}"], ["{tmp}/bad.json"]])
def test_bad_input_is_a_sentence_and_writes_nothing(arguments, tmp_path, capsys):
    (tmp_path / "bad.json").write_text("{")
    out = tmp_path / "page.html"
    given = [word.format(tmp=tmp_path) for word in arguments]
    assert cplsr(["report", *given, "--out", str(out)]) == EXIT_BAD_INPUT
    said = capsys.readouterr().err
    assert said.startswith("cplsr: ")
    assert said.count("\n") == 1
    assert not out.exists()


def test_a_folder_is_no_place_for_a_page(everything, capsys):
    assert cplsr(["report", str(everything), "--out", str(everything)]) == EXIT_BAD_INPUT
    assert "is a folder" in capsys.readouterr().err


def test_torch_is_not_needed_to_report(everything, tmp_path):
    command = ["report", str(everything), "--out", str(tmp_path / "p.html")]
    assert not heavy_after(f"from cplsr.cli import main; main({command!r})") & {"torch", "matplotlib"}
