import dataclasses
import json

import pytest

from cplsr.errors import InputError
from cplsr.records.results import AccuracyRow, CalibrationBin, CalibrationRow, ConfusionRow, PairedRow, Results


def row(method, target, shot, accuracy):
    return AccuracyRow(method, target, shot, 5, 15, 100, 0, None if method == "frozen" else 5, accuracy, 0.5)


@pytest.fixture
def results():
    return Results(
        rows=(
            row("frozen", "A", 1, 40.0),
            row("frozen", "A", 5, 60.0),
            row("frozen", "B", 1, 50.0),
            row("frozen", "B", 5, 70.0),
            row("cp", "A", 5, 64.0),
            row("cp", "B", 5, 71.0),
        ),
        paired=(PairedRow("cp", "frozen", "A", 5, 4.0, 0.3, 0.8), PairedRow("cp", "frozen", "B", 5, 1.0, 1.2, 0.6)),
        confusion=(ConfusionRow("cp", "A", 5, ("x", "y"), ((3, 1), (2, 2)), (0.75, 0.5)),),
        calibration=(CalibrationRow("cp", "A", 5, 20.0, 0.1, (CalibrationBin(0.9, 0.8, 1.0),)),),
        settings={"seed": 0},
        versions={"cplsr": "0"},
        data={"A": {"images": 3}},
        flags=("A: only a sample",),
    )


def test_averages_are_over_targets_and_only_where_all_were_measured(results):
    averages = {(average.method, average.shot): average.accuracy for average in results.averages()}

    assert averages == {("frozen", 1): 45.0, ("frozen", 5): 65.0, ("cp", 5): 67.5}


def test_one_target_has_no_average():
    assert Results(rows=(row("frozen", "A", 1, 40.0),)).averages() == ()


def test_rows_are_found(results):
    assert results.row("cp", "B", 5).accuracy == 71.0
    assert results.row("cp", "B", 1) is None
    assert results.paired_row("cp", "A", 5).difference == 4.0
    assert results.paired_row("frozen", "A", 5) is None
    assert results.confusion_row("cp", "A", 5).hardest == ("y", 0.5)
    assert results.confusion_row("cp", "B", 5) is None
    assert [pair.significant for pair in results.paired] == [True, False]


def test_the_file_has_the_documented_keys(tmp_path, results):
    path = tmp_path / "results.json"
    results.write(path)

    content = json.loads(path.read_text(encoding="utf-8"))

    assert set(content) == {
        "rows", "paired", "averages", "confusion", "calibration", "settings", "versions", "data", "flags",
    }  # fmt: skip
    assert list(content["rows"][0]) == [
        "method", "target", "shot", "way", "query", "episodes", "seed", "train_shot", "accuracy", "ci95",
        "together", "queries",
    ]  # fmt: skip
    assert list(content["paired"][0]) == ["method", "against", "target", "shot", "difference", "ci95", "wins"]
    assert content["confusion"] == [
        {"method": "cp", "target": "A", "shot": 5, "classes": ["x", "y"],
         "counts": [[[0, 3], [1, 1]], [[0, 2], [1, 2]]], "recall": [0.75, 0.5]}
    ]  # fmt: skip
    assert content["calibration"] == [
        {"method": "cp", "target": "A", "shot": 5, "temperature": 20.0, "ece": 0.1,
         "bins": [{"confidence": 0.9, "accuracy": 0.8, "share": 1.0}]}
    ]  # fmt: skip


def test_written_and_read_is_the_same(tmp_path, results):
    results.write(tmp_path / "results.json")

    assert Results.read(tmp_path / "results.json") == results


def test_files_of_earlier_versions_are_read(tmp_path, results):
    content = results.to_json()
    del content["confusion"], content["calibration"]
    (tmp_path / "old.json").write_text(json.dumps(content), encoding="utf-8")

    assert Results.read(tmp_path / "old.json") == dataclasses.replace(results, confusion=(), calibration=())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rows": [{}], "averages": []}'])
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "file.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(InputError, match=r"file.json (is not results|is no JSON)"):
        Results.read(path)


def test_the_confusions_of_a_thousand_classes_are_small(tmp_path):
    classes = tuple(f"class {n}" for n in range(1000))
    counts = tuple(tuple(40 if i == j else int((i * j) % 97 == 1) for j in range(1000)) for i in range(1000))
    row = ConfusionRow("frozen", "A", 5, classes, counts, (0.5,) * 1000)
    whole = Results(rows=(AccuracyRow("frozen", "A", 5, 5, 15, 5000, 0, None, 50.0, 0.1),), confusion=(row,))
    whole.write(tmp_path / "results.json")
    assert (tmp_path / "results.json").stat().st_size < 200_000
    assert Results.read(tmp_path / "results.json") == whole
