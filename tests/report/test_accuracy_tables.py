"""Accuracies as tables."""

from oracles import report_inputs

from cplsr.report.accuracy_tables import accuracy_table, paired_table


def test_the_best_is_bold_and_significant_changes_are_marked():
    table = accuracy_table(report_inputs.results(("a", "b")), 5)
    assert table.columns == ("method", "a", "b", "average")
    frozen, method = table.rows
    assert [(cell.text, cell.bold, cell.mark) for cell in frozen[1:]] == [
        ("55.00 ±0.55", False, ""), ("62.00 ±0.55", True, ""), ("58.50", True, "")
    ]  # fmt: skip
    assert [(cell.text, cell.bold, cell.mark) for cell in method[1:]] == [
        ("56.50 ±0.55", True, "better"), ("60.50 ±0.55", False, "worse"), ("58.50", True, "")
    ]  # fmt: skip


def test_one_method_on_one_target_has_nothing_to_stand_out_from():
    table = accuracy_table(report_inputs.results(("a",), methods=("frozen",)), 1)
    assert table.columns == ("method", "a")
    assert [(cell.text, cell.bold) for cell in table.rows[0]] == [("frozen", False), ("43.00 ±0.55", False)]
    assert "frozen" not in table.caption


def test_paired_differences_have_a_sign():
    rows = paired_table(report_inputs.results(("a", "b"), shots=(1,))).rows
    assert [(row[2].text, row[4].text, row[4].bold, row[4].mark) for row in rows] == [
        ("a", "+1.50 ±0.30", True, "better"),
        ("b", "-1.50 ±0.30", True, "worse"),
    ]
