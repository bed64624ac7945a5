"""Files of earlier versions, one of each kind as it was written then, still open."""

from pathlib import Path

import pytest

from cplsr.ablation.tuning import read_rates
from cplsr.records.ablation import AblationRun
from cplsr.records.adapter import AdapterInfo
from cplsr.records.analysis import Analysis
from cplsr.records.classifier import ClassifierInfo
from cplsr.records.results import Results
from cplsr.records.run import TrainingRun, read_metrics
from cplsr.report.page import write_report
from cplsr.settings.training import TrainingSettings
from cplsr.training.run_folder import told_differences

OLD = Path(__file__).parent.parent / "fixtures" / "old_formats"
PUBLISHED = Path(__file__).parent.parent.parent / "experiments"


def test_results_with_every_entry_of_the_confusions(tmp_path):
    results = Results.read(OLD / "results.json")
    row = results.confusion[0]
    assert row.classes == ("x", "y", "z")
    assert [sum(line) for line in row.counts] == [6, 10, 8]
    assert [line[i] / sum(line) for i, line in enumerate(row.counts)] == pytest.approx(row.recall)
    results.write(tmp_path / "new.json")
    assert Results.read(tmp_path / "new.json") == results


def test_a_run():
    run = TrainingRun.read(OLD / "run")
    assert (run.finished, run.adapter["kind"], run.data["base"]["classes"]) == (True, "coalescent", 4)
    assert run.last_accuracy == read_metrics(OLD / "run")[-1].validation
    settings = TrainingSettings.from_table(run.settings, "run.json")
    assert (settings.optimizer, settings.schedule, settings.augment) == ("adamw", "constant", "none")
    assert told_differences(run.settings, settings.as_dict()) == []


def test_an_adapter_and_a_classifier():
    info = AdapterInfo.read(OLD / "run" / "adapter")
    assert (info.shot, info.options["seed"], info.folder) == (1, 0, OLD / "run" / "adapter")
    assert info.temperature == 20  # from its settings
    classifier = ClassifierInfo.read(OLD / "classifier")
    assert classifier.adapter == {"kind": "coalescent", "fingerprint": info.fingerprint}


def test_an_analysis():
    analysis = Analysis.read(OLD / "analysis")
    assert list(analysis.domains["T"].before.bound) == [1, 2]
    assert len(analysis.heads) == 4
    assert analysis.attention[0].png.startswith(b"\x89PNG")


def test_runs_of_an_ablation_and_chosen_rates():
    frozen, trained, latest = (AblationRun.read(path) for path in sorted((OLD / "ablation").glob("*.json")))
    assert (frozen.training, frozen.declared, frozen.method) == (None, None, None)  # written before there were any
    assert trained.training["parameters"] == 147_456
    assert trained.results.paired_row(trained.row, "near", 5) is not None
    assert latest.declared == {"trains": "nothing", "sees": "nothing"}
    assert read_rates(OLD / "tuning") == {"LoRA, rank 4 + PE + SST": 0.003}


def test_a_page_of_all_of_them(tmp_path):
    titles = write_report([OLD], tmp_path / "r.html")
    assert {"Accuracy", "Class by class", "Training", "Ablation", "Embedding space and bound"} <= set(titles)


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published results are not beside these tests")
def test_all_published_results():
    for path in PUBLISHED.rglob("*.json"):
        if path.name == "tuning.json":
            assert read_rates(path.parent)
        elif path.name.startswith(("results", "targets", "validation")):
            assert Results.read(path).confusion
        else:
            assert AblationRun.read(path).results.rows
