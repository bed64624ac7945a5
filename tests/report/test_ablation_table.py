"""Figures of the ablation table against the same figures worked out by hand."""

import math
import statistics
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.report_inputs import BACKBONE

from cplsr.records.ablation import AblationRun
from cplsr.records.estimate import Estimate, combined
from cplsr.records.results import AccuracyRow, PairedRow, Results, SnapshotRow
from cplsr.report.ablation_table import NOT_ALLOWED, table_of, tables_by_shot


def record(row, seed, figures, *, shot=5, kind="coalescent", episodes=100, training_episodes=60, flags=()):
    """As a run writes it; figures: target -> (accuracy, interval, difference, interval of the difference)."""
    rows, paired = [], []
    method = "frozen" if kind == "frozen" else row
    for target, (accuracy, ci95, difference, paired_ci95) in figures.items():
        if kind != "frozen":
            rows.append(AccuracyRow("frozen", target, shot, 5, 15, episodes, seed, None, accuracy - difference, ci95))
            paired.append(PairedRow(row, "frozen", target, shot, difference, paired_ci95, 0.5))
        rows.append(AccuracyRow(method, target, shot, 5, 15, episodes, seed, None, accuracy, ci95))
    return AblationRun(
        row=row,
        shot=shot,
        seed=seed,
        settings={} if kind == "frozen" else {"episodes": training_episodes},
        adapter={"kind": kind, "options": {}},
        backbone=BACKBONE,
        results=Results(tuple(rows), tuple(paired), flags=tuple(flags)),
    )


RECORDS = [
    record("CP", 0, {"A": (60.0, 0.3, 0.5, 0.4), "B": (80.0, 0.2, -1.0, 0.1)}),
    record("CP", 1, {"A": (62.0, 0.4, 0.1, 0.3), "B": (82.0, 0.2, -2.0, 0.1)}),
    record("frozen", 0, {"A": (59.5, 0.3, 0.0, 0.0), "B": (81.0, 0.2, 0.0, 0.0)}, kind="frozen"),
    record("frozen", 1, {"A": (61.9, 0.3, 0.0, 0.0), "B": (84.0, 0.2, 0.0, 0.0)}, kind="frozen"),
]


def test_means_intervals_marks_and_bold():
    table = table_of(RECORDS, rows=["CP", "frozen"])
    assert table.columns[:5] == ("row", "A\n5-shot", "B\n5-shot", "average\n5-shot", "gain\n5-shot")
    assert table.columns[5:] == tuple(f"{what},\nspread over seeds\n5-shot" for what in ("average", "gain"))
    cp, frozen = table.rows
    assert [cell.text for cell in cp[:5]] == ["CP", "61.00 ±0.25", "81.00 ±0.14", "71.00 ±0.14", "−0.60 ±0.13"]
    # A: 0.3 on average, interval √(0.4² + 0.3²) / 2 = 0.25, so better; B: −1.5 ± 0.07; both: −0.6 ± 0.13
    assert [cell.mark for cell in cp] == ["", "better", "worse", "worse", "", "", ""]
    assert [cell.bold for cell in cp] == [False, True, False, False, False, False, False]
    assert [cell.bold for cell in frozen] == [False, False, True, True, False, False, False]
    assert [cell.mark for cell in frozen] == [""] * 7
    assert frozen[-1].text == ""


def test_two_seeds_are_told_by_the_lower_and_the_higher():
    cp, frozen = table_of(RECORDS).rows
    # CP: (60 + 80) / 2 and (62 + 82) / 2; gains (0.5 − 1) / 2 and (0.1 − 2) / 2; frozen: (59.5 + 81) / 2 …
    assert [cell.text for cell in cp[5:]] == ["70.00 to 72.00", "−0.95 to −0.25"]
    assert [cell.text for cell in frozen[5:]] == ["70.25 to 72.95", ""]


def test_three_seeds_are_told_by_their_t_interval():
    third = record("CP", 2, {"A": (67.0, 0.3, 0.9, 0.4), "B": (83.0, 0.2, 0.0, 0.1)})
    table = table_of([*RECORDS, third], shots=[5])
    # means 70, 72, 75 and −0.25, −0.95, 0.45; Student's t of two degrees of freedom is 4.302653
    half_widths = [4.302653 * statistics.stdev(means) / 3**0.5 for means in ((70, 72, 75), (-0.25, -0.95, 0.45))]
    assert [cell.text for cell in table.rows[0][5:]] == [f"±{half_width:.2f}" for half_width in half_widths]
    assert "| ±6.25 | ±1.74 |" in table.to_markdown()
    assert "95 % t interval over the means of the seeds" in table.caption


def test_one_seed_has_no_spread():
    table = table_of([RECORDS[0], RECORDS[2]])
    assert table.columns[5:] == ()
    assert "spread over seeds" not in table.caption.lower()


def test_the_best_epoch_on_the_target_stands_beside_the_last_and_is_never_bold():
    def kept(*figures):
        return tuple(SnapshotRow(e, t, 5, accuracy, 0.3) for e, t, accuracy in figures)

    first = kept((1, "A", 70.0), (2, "A", 60.0), (1, "B", 79.0), (2, "B", 80.0))
    second = kept((1, "A", 99.0), (2, "A", 62.0), (1, "B", 82.0), (2, "B", 82.0))
    records = [replace(RECORDS[0], snapshots=first), replace(RECORDS[1], snapshots=second), *RECORDS[2:]]
    plain, table = table_of(RECORDS), table_of(records)
    assert table.columns[7:] == ("last epoch\n5-shot", f"{NOT_ALLOWED}\n5-shot")
    assert "not allowed" in NOT_ALLOWED
    cp, frozen = table.rows
    # means of 60, 80, 62, 82 and of 70, 80, 99, 82; the interval √(4 · 0.3²) / 4 = 0.15
    assert [cell.text for cell in cp[7:]] == ["71.00 ±0.15", "82.75 ±0.15"]
    assert not any(cell.bold or cell.mark for cell in cp[7:])
    assert [cell.text for cell in frozen[7:]] == ["", ""]
    assert [row[:7] for row in table.rows] == [row[:7] for row in plain.rows]
    assert "no choice of ours sees it" in table.caption
    assert "no choice of ours sees it" not in plain.caption


def test_a_difference_within_its_interval_has_no_mark():
    records = [record("CP", seed, {"A": (60.0, 0.3, d, 0.4)}) for seed, d in ((0, 0.5), (1, 0.0))]
    assert table_of(records).rows[0][1].mark == ""  # 0.25 ± 0.28


def test_shots_stand_beside_each_other_or_are_chosen():
    one = record("CP", 0, {"A": (40.0, 0.3, 0.0, 0.1)}, shot=1)
    five = record("CP", 0, {"A": (60.0, 0.3, 0.0, 0.1)})
    assert table_of([five, one]).columns == ("row", "A\n1-shot", "A\n5-shot", "gain\n1-shot", "gain\n5-shot")
    assert table_of([five, one], shots=[5]).columns == ("row", "A\n5-shot", "gain\n5-shot")
    assert [cell.text for cell in table_of([five, one]).rows[0]][:3] == ["CP", "40.00 ±0.30", "60.00 ±0.30"]
    assert [table.columns[1] for table in tables_by_shot([five, one])] == ["A\n1-shot", "A\n5-shot"]


def test_what_the_trainings_cost_is_averaged_over_them():
    trained = [
        replace(each, training={"parameters": 147_456, "seconds": seconds}, seconds_per_target_episode=0.125)
        for each, seconds in zip(RECORDS[:2], (100.4, 201.0), strict=True)
    ]
    table = table_of([*trained, *RECORDS[2:]])
    assert table.columns[-3:] == ("trained\nparameters", "training\nseconds", "seconds per\ntarget episode")
    assert [cell.text for cell in table.rows[0][-3:]] == ["147,456", "151", "0.12"]
    assert [cell.text for cell in table.rows[1][-3:]] == ["", "", ""]


def test_a_row_of_fewer_episodes_is_never_the_best_and_is_told_of():
    few = record("PMF", 0, {"A": (99.0, 9.0, 2.0, 1.0), "B": (99.0, 9.0, 2.0, 1.0)})
    rows = tuple(replace(row, episodes=7 if row.method == "PMF" else 100) for row in few.results.rows)
    few = replace(few, results=replace(few.results, rows=rows))
    table = table_of([*RECORDS, few])
    assert not any(cell.bold for cell in table.rows[2])
    assert table.rows[0][1].bold
    assert "PMF: only the first 7 episodes; compare its gain, not its accuracy." in table.caption
    assert "Beware" not in table.caption


def test_methods_beside_each_other_declare_what_they_train_and_see():
    methods = [
        replace(
            record(name.upper(), 0, {"A": (60.0, 0.3, 0.0, 0.1)}),
            method={"name": name},
            declared={"trains": "backbone", "sees": f"what {name} sees"},
        )
        for name in ("pmf", "fwt")
    ]
    table = table_of(methods)
    assert table.columns[:3] == ("row", "trains", "sees")
    assert table.left == 3
    assert [cell.text for cell in table.rows[1]][:3] == ["FWT", "backbone", "what fwt sees"]
    assert "trains" not in table_of(methods[:1]).columns


def test_a_target_that_some_row_lacks_leaves_its_cells_empty():
    more = record("Other", 0, {"A": (10.0, None, 0.0, None)})
    row = table_of([*RECORDS, more]).rows[2]
    assert [cell.text for cell in row] == ["Other", "10.00", "", "", "", "", ""]
    assert row[1].mark == ""


def test_the_caption_tells_what_is_missing_unequal_mixed_failed_and_flagged():
    records = [*RECORDS, record("LoRA", 1, {"A": (1.0, 0.1, 0.0, 1.0)}, training_episodes=9, flags=["A: odd count"])]
    caption = table_of(records, rows=["CP", "frozen", "Later"], failures=[("X, 5-shot, seed 0", "it broke.")]).caption
    assert "seeds 0, 1" in caption
    assert "√(Σ interval²) / n" in caption
    assert "LoRA, 5-shot: only seed 1." in caption
    assert "Not run: Later." in caption
    assert "Failed: X, 5-shot, seed 0: it broke." in caption
    assert "different numbers of training episodes (60, 9)" in caption
    assert "A: odd count." in caption
    plain = table_of(RECORDS, rows=["CP", "frozen"]).caption
    for word in ("only", "Not run", "Failed", "Beware"):
        assert word not in plain


def test_nothing_yet_is_a_table_too():
    table = table_of([], rows=["CP"], failures=[("CP", "no")])
    assert table.rows == ()
    assert table.caption == "Not run: CP. Failed: CP: no."
    assert "| row |" in table.to_markdown()


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(0, 10)), min_size=1, max_size=6))
def test_combined_is_the_formula(pairs):
    result = combined([Estimate(mean, width) for mean, width in pairs])
    total = 0.0
    for _, width in pairs:
        total += width * width
    assert result.mean == pytest.approx(math.fsum(mean for mean, _ in pairs) / len(pairs), abs=1e-9)
    assert result.half_width == pytest.approx(math.sqrt(total) / len(pairs), abs=1e-12)
    assert combined([Estimate(1.0, 0.5), Estimate(2.0, None)]).half_width is None
