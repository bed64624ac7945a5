"""One table in five formats."""

import csv
import io

import pytest
from rich.console import Console

from cplsr.report.tables import Cell, Table, table

TABLE = Table(
    title="Title <b>",
    columns=("name", "A\n1-shot"),
    rows=(
        (Cell("x|y & <z>"), Cell("12.3 ±0.4", bold=True, mark="better")),
        (Cell("50 %_{}"), Cell("-1", mark="worse")),
    ),
    caption="below",
)


def test_markdown_keeps_its_columns():
    lines = TABLE.to_markdown().splitlines()
    assert lines[0] == "**Title <b>**"
    assert lines[2:6] == [
        "| name | A 1-shot |",
        "| --- | ---: |",
        r"| x\|y & <z> | **12.3 ±0.4** ▲ |",
        "| 50 %_{} | -1 ▼ |",
    ]


def test_latex_escapes_what_it_must():
    latex = TABLE.to_latex()
    assert r"50 \%\_\{\}" in latex
    assert r"x|y \& <z> & \textbf{12.3 $\pm$0.4} $\blacktriangle$ \\" in latex
    assert latex.count(r"\\") == 3


def test_csv_holds_the_plain_texts():
    rows = list(csv.reader(io.StringIO(TABLE.to_csv())))
    assert rows == [["name", "A 1-shot"], ["x|y & <z>", "12.3 ±0.4"], ["50 %_{}", "-1"]]


def test_html_escapes_everything():
    written = TABLE.to_html()
    assert "<z>" not in written
    assert "Title &lt;b&gt;" in written
    assert 'class="figure"><b>12.3 ±0.4</b> <span class="better"' in written


def test_the_terminal_shows_texts_as_they_are():
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(Table(title="", columns=("a",), rows=((Cell("[red] 1"),),)).to_rich())
    assert "[red] 1" in console.export_text()


def test_words_that_nearly_all_rows_share_stand_in_the_caption():
    seen, other = "labels of the support images", "also the queries of an episode, together"
    lines = [("a", "x", seen, "1"), ("b", "x", seen, "2"), ("c", "x", seen, "3"), ("d", "x", other, "4")]
    short = table("", ("row", "kind", "sees", "%"), lines, "Means.", left=3).without_repeated_words()
    assert [row[2].text for row in short.rows] == ["", "", "", other]
    assert [row[1].text for row in short.rows] == ["x"] * 4
    assert short.caption == f"Means. Sees where nothing else stands: {seen}."
    same = table("", ("row", "kind", "sees", "%"), lines[:3], left=3).without_repeated_words().without_empty_columns()
    assert same.columns == ("row", "kind", "%")
    assert same.caption == f"Sees in every row: {seen}."
    mixed = table("", ("row", "sees", "%"), [("a", seen, "1"), ("b", other, "2")], left=2)
    assert mixed.without_repeated_words() == mixed


def test_a_row_with_a_missing_cell_is_refused():
    with pytest.raises(ValueError, match="1 cells in a table of 2"):
        Table(title="", columns=("a", "b"), rows=((Cell("1"),),))


def test_columns_without_a_figure_go():
    whole = table("t", ("a", "b", "c", "d"), [("–", "–", "1", ""), ("x", "", "–", "–")], left=2)
    assert whole.without_empty_columns() == table("t", ("a", "c"), [("–", "1"), ("x", "–")], left=1)
    assert table("t", ("a", "b"), []).without_empty_columns().columns == ("a", "b")
