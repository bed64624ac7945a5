"""The rate with the best validation accuracy is chosen; a failed one never."""

import json
from dataclasses import replace

import pytest
from oracles.report_inputs import BACKBONE

from cplsr.ablation.plan import plan_runs, read_rows
from cplsr.ablation.run import perform
from cplsr.ablation.tuning import choose_rates, read_rates, tuning_jobs
from cplsr.ablation.workspace import Workspace
from cplsr.errors import InputError
from cplsr.records.run import TrainingRun


@pytest.fixture
def runs(common):
    rows = read_rows({"A": {}, "B": {"adapter": "residual"}, "frozen": {"adapter": "frozen"}})
    return plan_runs(rows, common, shots=[1, 2], seeds=[7, 8])


def jobs_of(runs, setup, out, rates=(1e-2, 1e-3)):
    return tuning_jobs(runs, setup, out, rates=rates, episodes=2, seed=7)


def pretend(job, accuracy, *, finished=True):
    """As if the training had been done."""
    results = {"start_accuracy": 1.0, "last_accuracy": accuracy, "best_accuracy": 99.0, "best_episode": 0}
    run = TrainingRun({}, {"kind": job.run.adapter}, BACKBONE, {}, {}, finished=finished, seconds=1.0, **results)
    run.write(job.folder)


def test_short_trainings_of_every_row_shot_and_rate_but_one_seed(runs, setup, tmp_path):
    jobs = jobs_of(runs, setup, tmp_path)
    chosen = [(job.run.row, job.run.settings.shot, job.run.settings.lr) for job in jobs]
    assert chosen == [(row, shot, rate) for row in "AB" for shot in (1, 2) for rate in (1e-3, 1e-2)]
    assert {job.run.settings.seed for job in jobs} == {7}
    assert {job.run.settings.episodes for job in jobs} == {2}
    assert len({job.folder for job in jobs}) == len(jobs)
    assert all(job.folder.parent == tmp_path / "tuning" and job.record is None for job in jobs)


def test_the_best_mean_over_shots_wins_and_of_equals_the_smallest_rate(runs, setup, tmp_path):
    jobs = jobs_of(runs, setup, tmp_path, rates=(1e-1, 1e-2, 1e-3))
    accuracies = {
        *(("A", 1, 1e-3, 50.0), ("A", 2, 1e-3, 50.0), ("A", 1, 1e-2, 40.0), ("A", 2, 1e-2, 61.0)),
        *(("A", 1, 1e-1, 70.0), ("A", 2, 1e-1, 30.0)),
        *(("B", 1, 1e-3, 20.0), ("B", 2, 1e-3, 40.0), ("B", 1, 1e-2, 40.0), ("B", 2, 1e-2, 20.0)),
        *(("B", 1, 1e-1, 1.0), ("B", 2, 1e-1, 1.0)),
    }
    table = {key: value for *key_parts, value in accuracies for key in [tuple(key_parts)]}
    for job in jobs:
        pretend(job, table[job.run.row, job.run.settings.shot, job.run.settings.lr])
    assert choose_rates(jobs, tmp_path) == {"A": 1e-2, "B": 1e-3}
    assert read_rates(tmp_path) == {"A": 1e-2, "B": 1e-3}
    entry = json.loads((tmp_path / "tuning.json").read_text())["rows"]["A"]
    assert entry["validation_accuracy"] == {"0.001": 50.0, "0.01": 50.5, "0.1": 50.0}
    assert (entry["shots"], entry["seed"], entry["episodes"], entry["failed"]) == ([1, 2], 7, 2, [])


def test_a_rate_that_failed_at_one_shot_is_out_and_a_row_without_any_has_none(runs, setup, tmp_path):
    jobs = jobs_of(runs, setup, tmp_path)
    for job in jobs:
        broken = job.run.row == "B" or (job.run.settings.lr == 1e-2 and job.run.settings.shot == 2)
        pretend(job, 90.0 if job.run.settings.lr == 1e-2 else 30.0, finished=not broken)
    assert choose_rates(jobs, tmp_path) == {"A": 1e-3}
    assert json.loads((tmp_path / "tuning.json").read_text())["rows"]["A"]["failed"] == ["0.01"]


def test_tuning_a_row_later_keeps_what_was_chosen_for_others(runs, setup, tmp_path):
    for row, rate in (("A", 1e-2), ("B", 1e-3)):
        jobs = [job for job in jobs_of(runs, setup, tmp_path) if job.run.row == row]
        for job in jobs:
            pretend(job, 80.0 if job.run.settings.lr == rate else 10.0)
        choose_rates(jobs, tmp_path)
    assert read_rates(tmp_path) == {"A": 1e-2, "B": 1e-3}
    assert read_rates(tmp_path / "elsewhere") == {}


def test_no_target_is_opened(runs, setup, tmp_path):
    setup = replace(setup, targets=(("T", str(tmp_path / "nowhere")),))
    job = jobs_of(runs[:1], setup, tmp_path)[0]
    perform(job, Workspace(setup))
    told = json.loads((job.folder / "run.json").read_text())
    assert told["finished"]
    assert told["settings"]["select"] == "last"
    assert choose_rates([job], tmp_path) == {"A": 1e-3}


@pytest.mark.parametrize("rates", [(), (1e-3, 1e-3), (0.0, 1.0)])
def test_wrong_rates_are_a_sentence(runs, setup, tmp_path, rates):
    with pytest.raises(InputError, match="tune_rates are"):
        jobs_of(runs, setup, tmp_path, rates=rates)
