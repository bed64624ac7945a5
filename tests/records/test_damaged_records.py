"""Whatever is wrong in a file is one sentence that says where."""

import json
import shutil
from pathlib import Path

import pytest

from cplsr.cli import main
from cplsr.errors import InputError
from cplsr.records.adapter import AdapterInfo
from cplsr.records.classifier import ClassifierInfo
from cplsr.records.results import Results
from cplsr.records.run import TrainingRun

OLD = Path(__file__).parent.parent / "fixtures" / "old_formats"


def spoil(path, place, value):
    """Put `value` at a place such as `rows.0.method` of a JSON file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    *outer, last = (int(part) if part.isdigit() else part for part in place.split("."))
    inner = content
    for part in outer:
        inner = inner[part]
    inner[last] = value
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize(
    ("place", "value", "where"),
    [
        ("settings", [], "settings"),
        ("settings.backbone.layers", "x", "settings.backbone.layers"),
        ("settings.backbone.image_size", 10**9, "settings.backbone.image_size"),
        ("settings.adapters", [3], r"settings.adapters\[0\]"),
        ("versions", "new", "versions"),
        ("versions", {"torch": 2}, r"versions\[...\]"),
        ("data", [], "data"),
        ("data.T.classes", ["x"], r"data\[...\].classes"),
        ("data.T.unreadable", 3, r"data\[...\].unreadable"),
        ("rows.0.method", 3, r"rows\[0\].method"),
        ("rows.0.shot", True, r"rows\[0\].shot"),
        ("rows.0.accuracy", 1e300, r"rows\[0\].accuracy"),
        ("confusion", {}, "confusion"),
        ("confusion.0.counts.0", [[0, 1, 2]], r"confusion\[0\].counts\[0\]\[0\]"),
        ("confusion.0.counts.0", [[9, 1]], r"confusion\[0\]"),
        ("confusion.0.counts.0", [[-1, 1]], r"confusion\[0\]"),
        ("confusion.0.counts.0", [-1, 1, 1], r"confusion\[0\]"),
        ("calibration.0.bins.0.share", None, r"calibration\[0\].bins\[0\].share"),
        ("flags", "odd", "flags"),
        ("flags", [1], r"flags\[0\]"),
    ],
)
def test_results(tmp_path, capsys, place, value, where):
    path = shutil.copy(OLD / "results.json", tmp_path / "r.json")
    spoil(path, place, value)
    with pytest.raises(InputError, match=rf"r\.json is not results .*, in {where}$"):
        Results.read(path)
    assert main(["report", str(path), "--out", str(tmp_path / "r.html")]) == 2
    assert main(["published", "mini", "--beside", str(path)]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "value", "where"),
    [
        ("settings", "fast", "settings"),
        ("versions", [], "versions"),
        ("data", {"base": []}, r"data\[...\]"),
        ("data.base.flags", 1, r"data\[...\].flags"),
        ("adapter.kind", None, "adapter.kind"),
        ("finished", 1, "finished"),
        ("seconds", "long", "seconds"),
    ],
)
def test_a_run(tmp_path, place, value, where):
    folder = shutil.copytree(OLD / "run", tmp_path / "run")
    spoil(folder / "run.json", place, value)
    with pytest.raises(InputError, match=rf"run\.json is not a run .*, in {where}$"):
        TrainingRun.read(folder)
    assert main(["report", str(folder), "--out", str(tmp_path / "r.html")]) == 2


def test_a_finished_run_has_results(tmp_path):
    folder = shutil.copytree(OLD / "run", tmp_path / "run")
    spoil(folder / "run.json", "last_accuracy", None)
    with pytest.raises(InputError, match="its accuracies or its time are missing"):
        TrainingRun.read(folder)


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        ("options", [], "a table was wanted, not a list, in options"),
        ("info", "", "a table was wanted, not text, in info"),
        ("info.shot", "five", "info.shot is 'five'"),
        ("info.temperature", -1, "info.temperature is -1: give a number above 0"),
        ("backbone.image_size", "x", "a whole number was wanted, not text, in backbone.image_size"),
        ("backbone.mean", [0.5], "in backbone.mean"),
        ("format", 9, "update cplsr"),
    ],
)
def test_an_adapter(tmp_path, place, value, sentence):
    folder = shutil.copytree(OLD / "run" / "adapter", tmp_path / "a")
    spoil(folder / "adapter.json", place, value)
    with pytest.raises(InputError, match=f"is not an adapter .*{sentence}"):
        AdapterInfo.read(folder)


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        ("classes", [None], r"in classes\[0\]"),
        ("settings.prototype", "median", "in settings.prototype"),
        ("backbone", {}, "missing required field"),
        ("temperature", "warm", "in temperature"),
        ("format", 9, "update cplsr"),
    ],
)
def test_a_classifier(tmp_path, place, value, sentence):
    folder = shutil.copytree(OLD / "classifier", tmp_path / "c")
    spoil(folder / "classifier.json", place, value)
    with pytest.raises(InputError, match=f"is not a classifier .*{sentence}"):
        ClassifierInfo.read(folder)
