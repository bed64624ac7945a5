"""Accuracies as tables."""

from dataclasses import replace

from oracles import report_inputs

from cplsr.report.accuracy_tables import accuracy_table, paired_table, whole_accuracy_table


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


def test_a_method_of_fewer_episodes_is_never_the_best_and_is_told_of():
    whole = report_inputs.results(("a", "b"))
    last = whole.methods[-1]
    few = replace(
        whole,
        rows=tuple(replace(r, episodes=7, accuracy=99.0) if r.method == last else r for r in whole.rows),
    )
    table = accuracy_table(few, 5)
    by_method = {row[0].text: row for row in table.rows}
    assert not any(cell.bold for cell in by_method[last])
    for column in (1, 2, 3):
        assert sum(row[column].bold for row in table.rows) == 1
    assert f"{last}: 7 episodes only." in table.caption
    assert "only" not in accuracy_table(whole, 5).caption


def test_all_shots_at_once_have_the_cells_of_each_shot_either_way():
    whole = report_inputs.results(("a", "b"))
    down = whole_accuracy_table(whole)
    across = whole_accuracy_table(whole, methods_down=False)
    figures = {}
    for shot in whole.shots:
        table = accuracy_table(whole, shot)
        for row in table.rows:
            figures |= {(row[0].text, name, shot): cell for name, cell in zip(table.columns[1:], row[1:], strict=True)}

    heads = [head.split("\n") for head in down.columns[1:]]
    assert figures == {
        (row[0].text, name, int(shot.removesuffix("-shot"))): cell
        for row in down.rows
        for (name, shot), cell in zip(heads, row[1:], strict=True)
    }
    assert figures == {
        (method, row[0].text, int(row[1].text)): cell
        for row in across.rows
        for method, cell in zip(across.columns[2:], row[2:], strict=True)
    }


def with_both_kinds_of_queries():
    whole = report_inputs.results(("a", "b"), methods=("frozen", "frozen em"))
    rows = tuple(replace(row, together=row.method == "frozen em") for row in whole.rows)
    uneven = replace(whole, rows=tuple(replace(r, accuracy=r.accuracy - 9, queries="dirichlet") for r in rows))
    return replace(whole, rows=rows, dirichlet=uneven)


def test_methods_that_see_the_queries_together_have_a_sign_that_is_explained():
    table = accuracy_table(replace(with_both_kinds_of_queries(), dirichlet=None), 1)

    assert [row[0].text for row in table.rows] == ["frozen", "frozen em †"]
    assert "† sees the queries of an episode together" in table.caption
    assert "Dirichlet" not in table.caption
    assert r"frozen em $\dagger$" in table.to_latex()
    assert "†" not in accuracy_table(report_inputs.results(("a", "b")), 1).caption


def test_balanced_and_uneven_queries_stand_side_by_side():
    both = with_both_kinds_of_queries()

    table = accuracy_table(both, 1)
    down = whole_accuracy_table(both)
    across = whole_accuracy_table(both, methods_down=False)

    assert table.columns == ("method", "a", "a\nDirichlet", "b", "b\nDirichlet", "average", "average\nDirichlet")
    assert [cell.text[:5] for cell in table.rows[0][1:]] == ["43.00", "34.00", "50.00", "41.00", "46.50", "37.50"]
    assert "unequally many of each class" in table.caption
    assert down.columns[:3] == ("method", "a\n1-shot", "a\n1-shot\nDirichlet")
    assert [tuple(cell.text for cell in row[:2]) for row in across.rows[:2]] == [("a", "1"), ("a", "1 Dirichlet")]
    assert {row[3].text for row in paired_table(both).rows} == {"1", "1 Dirichlet", "5", "5 Dirichlet"}


def test_uneven_queries_alone_are_told_of():
    table = accuracy_table(with_both_kinds_of_queries().dirichlet, 1)
    assert "15 queries per class on average, in shares drawn from Dirichlet(2)" in table.caption
