"""The opening of a page says what the figures say."""

import math

import pytest
from oracles import report_inputs

from cplsr.records.estimate import combined
from cplsr.records.results import AccuracyRow, PairedRow, Results
from cplsr.records.run import TrainingRun, read_metrics
from cplsr.report.sources import Material, Training
from cplsr.report.summary import duration, evaluation_words, gain_words, remarks, tiles, training_words


def results_with(differences, half=0.3, shots=(1,)):
    rows, paired = [], []
    for number, difference in enumerate(differences):
        for shot in shots:
            target = f"t{number}"
            rows.append(AccuracyRow("frozen", target, shot, 5, 15, 1000, 0, None, 50.0, 0.5))
            rows.append(AccuracyRow("CP", target, shot, 5, 15, 1000, 0, 5, 50.0 + difference, 0.5))
            paired.append(PairedRow("CP", "frozen", target, shot, difference, half, 0.5))
    return Results(tuple(rows), tuple(paired), settings={"backbone": {"source": "embedded"}})


def test_the_average_and_its_interval_against_a_loop():
    rows = [
        PairedRow("m", "frozen", str(n), 1, d, h, 0.5) for n, (d, h) in enumerate([(1.0, 0.3), (-2.0, 0.4), (4.0, 1.2)])
    ]
    total, squares = 0.0, 0.0
    for row in rows:
        total += row.difference
        squares += row.ci95**2
    assert combined([row.estimate for row in rows]) == (pytest.approx(total / 3), pytest.approx(math.sqrt(squares) / 3))
    assert combined([PairedRow("m", "f", "t", 1, 1.0, None, 0.5).estimate]) == (1.0, None)


def test_counts_of_better_worse_and_chance():
    words = gain_words(results_with([2.0, -1.0, 0.1, 0.3]), "CP")
    assert "CP gained 0.35 ± 0.15 points at 1 shot averaged over the targets." in words
    assert (
        "Of 4 comparisons with frozen, 1 came out significantly better, 1 significantly worse, 2 within chance."
        in words
    )
    assert "The largest gain is +2.00 points (t0, 1-shot), the largest loss -1.00 points (t1, 1-shot)." in words


def test_a_loss_is_called_a_loss():
    words = gain_words(results_with([-2.0]), "CP")
    assert words.startswith("CP lost 2.00 ± 0.30 points at 1 shot. Of 1 comparison with frozen, 0 came out")
    assert words.endswith("The largest loss -2.00 points (t0, 1-shot).")
    assert "gain " not in words


def test_what_was_compared_and_on_how_much():
    opening = evaluation_words(results_with([1.0, 2.0], shots=(1, 5)))[0]
    assert opening == (
        "CP was compared with the frozen backbone embedded on 2 target domains (t0 and t1), in 1,000 episodes of 5 "
        "classes for each target and shot (1 and 5 labeled images per class); all methods saw the same episodes."
    )


def test_the_frozen_backbone_alone_is_no_comparison():
    words = evaluation_words(report_inputs.results(methods=("frozen",)))
    assert len(words) == 1
    assert words[0].startswith("The frozen backbone embedded was measured on 2 target domains")
    assert "same episodes" not in words[0]
    assert tiles(report_inputs.results(methods=("frozen",))) == ""


def test_tiles_call_chance_chance():
    assert 'class="change within">+0.10 ± 0.30 points' in tiles(results_with([0.1]))
    assert 'class="change better">▲ +1.00 ± 0.30 points' in tiles(results_with([1.0]))
    assert 'class="change worse">▼ -1.00 ± 0.30 points' in tiles(results_with([-1.0]))


def read_run(folder):
    return Training(TrainingRun.read(folder), tuple(read_metrics(folder)))


def test_a_training_in_words(tmp_path):
    words = training_words("run", read_run(report_inputs.write_run(tmp_path / "run", episodes=60)))
    assert "training a coalescent adapter on 64 classes (2,560 images) for 60 base episodes" in words
    assert "went from 51.40 % to 53.40 %" in words
    assert "53.40 % at its best, after 60 episodes." in words


def test_flags_come_first_each_once(tmp_path):
    run = read_run(report_inputs.write_run(tmp_path / "run", finished=False))
    evaluation = report_inputs.results(flags=("leaf: a sample",))
    found = remarks(Material((("a", evaluation), ("b", evaluation), ("run", run))))
    assert found == [
        "leaf: a sample",
        "run: the training is not finished; figures are those so far.",
        "base@val: a sample of 960",
    ]


def test_a_sample_of_the_benchmark_is_a_remark():
    results = report_inputs.results(("EuroSAT",), backbone=report_inputs.VIT_S16)
    assert remarks(Material((("a", results),))) == [
        "EuroSAT: the data is a sample (420 of 27,000 images): not comparable"
    ]


def test_durations():
    assert [duration(seconds) for seconds in (45.7, 600.0, 10000.0)] == ["46\u00a0s", "10\u00a0min", "2.8\u00a0h"]
