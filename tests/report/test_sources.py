"""Inputs are recognized by what is in them; what is none of them, or damaged, is one sentence."""

import json
import shutil

import pytest
from oracles import report_inputs

from cplsr.errors import InputError
from cplsr.records.analysis import Analysis
from cplsr.records.public import public_path
from cplsr.records.results import Results
from cplsr.report.sources import Ablation, Training, gather


@pytest.fixture
def everything(tmp_path):
    return report_inputs.write_everything(tmp_path / "all")


def kinds(material):
    return tuple(len(material.of(kind)) for kind in (Results, Training, Analysis, Ablation))


def only(material, kind):
    [(_, record)] = material.of(kind)
    return record


def test_a_folder_is_searched_one_level_deep(everything):
    assert kinds(gather([everything])) == (1, 1, 1, 1)


def test_two_levels_deep_is_too_deep(tmp_path):
    report_inputs.write_run(tmp_path / "a" / "b" / "run")
    with pytest.raises(InputError, match="holds nothing to report on"):
        gather([tmp_path])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("results.json", (1, 0, 0, 0)),
        ("run", (0, 1, 0, 0)),
        ("run/run.json", (0, 1, 0, 0)),
        ("analysis", (0, 0, 1, 0)),
        ("analysis/analysis.json", (0, 0, 1, 0)),
        ("ablation", (0, 0, 0, 1)),
        ("ablation/1-5shot-seed0.json", (0, 0, 0, 1)),
    ],
)
def test_each_kind_by_itself(everything, given, wanted):
    assert kinds(gather([everything / given])) == wanted


def test_names_of_files_do_not_matter(everything):
    (everything / "results.json").rename(everything / "mine.json")
    assert kinds(gather([everything])) == (1, 1, 1, 1)


def test_nothing_is_taken_twice(everything):
    assert kinds(gather([everything, everything / "run", everything / "results.json"])) == (1, 1, 1, 1)


def test_the_contents_arrive(everything):
    material = gather([everything])
    training, analysis = only(material, Training), only(material, Analysis)
    assert len(training.steps) == 60
    assert [episode for episode, _, _ in training.validations] == [0, 20, 40, 60]
    assert len(training.metrics[-1].distance_from_identity) == 6
    assert analysis.domains["landcover"].after.within_between == pytest.approx(2.1)
    assert (analysis.domains["landcover"].drift.cosine, analysis.domains["landcover"].drift.shift) == (0.987, 0.065)
    assert [panel.stage for panel in analysis.panels] == ["before", "after"] * 2
    assert analysis.attention[0].png.startswith(b"\x89PNG")
    assert [run.row for run in only(material, Ablation).runs] == ["frozen", "CP + PE + SST", "AttnScale"]
    assert len(material.files) == 1 + 2 + 3 + 3


def test_rows_stand_as_in_the_ablations_own_table(everything):
    (everything / "ablation" / "table.csv").write_text("row,leaf\nAttnScale,1\nfrozen,2\nCP + PE + SST,3\n")
    runs = only(gather([everything / "ablation"]), Ablation).runs
    assert [run.row for run in runs] == ["AttnScale", "frozen", "CP + PE + SST"]


def test_what_is_infinite_is_null_in_the_file(tmp_path):
    content = report_inputs.analysis()
    content["domains"]["leaf"]["before"]["within_between"] = None
    content["heads"][0]["condition"] = None
    content["domains"]["leaf"]["drift"]["shift"] = None
    del content["domains"]["landcover"]["drift"]  # written before there was one
    analysis = only(gather([report_inputs.write_analysis(tmp_path / "a", content)]), Analysis)
    assert analysis.domains["leaf"].before.within_between == float("inf")
    assert analysis.heads[0].condition == float("inf")
    assert analysis.domains["landcover"].drift is None
    assert analysis.domains["leaf"].drift.shift == float("inf")


def refuses(path, match):
    with pytest.raises(InputError, match=match) as caught:
        gather([path])
    assert "\n" not in str(caught.value)


def test_what_is_not_there(tmp_path):
    refuses(tmp_path / "nothing", "does not exist")
    refuses(tmp_path, "holds nothing to report on")
    with pytest.raises(InputError, match="nothing to report on"):
        gather([])


JSON = ["{", "\udcff", '{"rows": "\\ud800"}', "[1, 2]", '{"some": "thing"}', "[" * 100_000, ""]


@pytest.mark.parametrize("content", JSON)
def test_files_of_other_kinds(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    refuses(path, "x.json is")


def test_results_without_rows_or_with_wrong_figures(tmp_path):
    content = report_inputs.results().to_json()
    path = tmp_path / "r.json"
    path.write_text(json.dumps({**content, "rows": []}))
    refuses(path, "holds no accuracies")
    for key, value in (("accuracy", "high"), ("ci95", [1]), ("shot", None), ("accuracy", float("nan"))):
        path.write_text(json.dumps({**content, "rows": [{**content["rows"][0], key: value}]}))
        refuses(path, rf"in rows\[0\]\.{key}$" if value == value else "is no JSON or is damaged")
    confusion = [{**content["confusion"][0], "classes": ["one"]}]
    path.write_text(json.dumps({**content, "confusion": confusion}))
    refuses(path, r"that of 1 classes, in confusion\[0\]$")
    confusion = [{**content["confusion"][0], "recall": [0.5]}]
    path.write_text(json.dumps({**content, "confusion": confusion}))
    refuses(path, r"are not those of 7 classes, in confusion\[0\]$")


def test_damaged_runs(everything):
    metrics = everything / "run" / "metrics.jsonl"
    whole = metrics.read_text()
    metrics.write_text(whole[:-20])
    refuses(everything / "run", r"metrics\.jsonl is no JSON or is damaged .*`cplsr train`")
    metrics.write_text('{"episode": 1, "loss": "low", "images_per_second": 2}\n')
    refuses(everything / "run", r"metrics\.jsonl is not the metrics of a run .*not text, in \[0\]\.loss$")
    metrics.unlink()
    assert only(gather([everything / "run"]), Training).steps == []
    (everything / "run" / "run.json").write_text('{"settings": []}')
    refuses(everything / "run", r"run\.json is not a run .*a table was wanted, not a list, in settings$")


@pytest.mark.parametrize("key", ["domains", "heads", "cost", "umap", "attention", "notes", "backbone"])
def test_an_analysis_that_lacks_something(tmp_path, key):
    content = report_inputs.analysis()
    folder = report_inputs.write_analysis(tmp_path / "a", content)
    del content[key]
    (folder / "analysis.json").write_text(json.dumps(content))
    refuses(folder, f"analysis.json is not an analysis .*missing required field {key}")


def test_pictures_must_be_pictures_and_within_the_folder(tmp_path):
    folder = report_inputs.write_analysis(tmp_path / "a")
    (tmp_path / "secret.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "attention" / "a-0.png").write_bytes(b"<svg onload=alert(1)>")
    refuses(folder, "a-0.png is not a PNG picture")
    content = report_inputs.analysis()
    content["attention"][0]["file"] = "../secret.png"
    (folder / "analysis.json").write_text(json.dumps(content))
    refuses(folder, "outside its folder")


def test_panels_must_fit_together(tmp_path):
    folder = report_inputs.write_analysis(tmp_path / "a")
    panel = {"domain": "a", "stage": "before", "classes": ["x"], "labels": [0, 0], "x": [1.0], "y": [1.0]}
    (folder / "umap.json").write_text(json.dumps({"panels": [panel]}))
    refuses(folder, "2 labels, 1 x and 1 y")
    (folder / "umap.json").unlink()
    refuses(folder, r"umap\.json cannot be read")


def test_a_damaged_ablation(everything):
    path = everything / "ablation" / "1-5shot-seed0.json"
    content = json.loads(path.read_text())
    content["results"]["rows"][0]["accuracy"] = "x"
    path.write_text(json.dumps(content))
    refuses(everything / "ablation", r"is not a run of an ablation .*not text, in results\.rows\[0\]\.accuracy$")


def test_names_do_not_tell_where_things_are_kept(tmp_path, monkeypatch):
    inner = tmp_path / "home" / "me" / "runs" / "demo"
    inner.mkdir(parents=True)
    assert public_path(inner) == "runs/demo"
    monkeypatch.chdir(tmp_path / "home" / "me")
    assert public_path(inner) == "runs/demo"
    assert public_path(tmp_path / "home") == f"{tmp_path.name}/home"
    shutil.rmtree(inner)
