"""A table once, written as Markdown, LaTeX, CSV, HTML or for the terminal."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from cplsr.files import csv_cell
from cplsr.records.estimate import Mark
from cplsr.report.markup import element, text

if TYPE_CHECKING:
    from rich.table import Table as RichTable

LONG, MOST = 24, 0.7
"""Letters of words that would take several lines of a cell, and the share of rows that makes them worth saying once."""

ARROWS: dict[Mark, str] = {"": "", "better": "▲", "worse": "▼"}
_HTML_ARROWS: dict[Mark, str] = {
    "": "",
    "better": '<span class="better" title="significantly better">▲</span>',
    "worse": '<span class="worse" title="significantly worse">▼</span>',
}
_RICH_ARROWS: dict[Mark, str] = {"": "", "better": "[green]▲[/green]", "worse": "[red]▼[/red]"}
_LATEX_ARROWS: dict[Mark, str] = {"": "", "better": r"$\blacktriangle$", "worse": r"$\blacktriangledown$"}
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "−": "$-$", "×": r"$\times$",
    "†": r"$\dagger$",
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """What stands in one place: its text, whether it is the best of its column, and a significant change."""

    text: str
    bold: bool = False
    mark: Mark = ""


Cells = tuple[Cell | str, ...]


def table(title: str, columns: Iterable[str], rows: Iterable[Cells], caption: str = "", left: int = 1) -> Table:
    """A table of cells and of plain texts."""
    cells = tuple(tuple(Cell(entry) if isinstance(entry, str) else entry for entry in row) for row in rows)
    return Table(title, tuple(columns), cells, caption, left)


def best_of_most(values: Iterable[tuple[float, int]]) -> tuple[float, int] | None:
    """The highest of (value, episodes) among those of most episodes: one of fewer may be high by chance."""
    return max(values, key=lambda pair: pair[::-1], default=None)


@dataclass(frozen=True)
class Table:
    """Rows of cells under named columns; the first `left` columns are words, the others figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    left: int = 1

    def __post_init__(self) -> None:
        """Refuse a row that has not one cell per column."""
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row of {len(row)} cells in a table of {len(self.columns)} columns: give one each")

    def without_empty_columns(self) -> Table:
        """The same without columns in which no row has anything to say; the first stays."""
        kept = [
            number
            for number in range(len(self.columns))
            if number == 0 or not self.rows or any(row[number].text not in ("", "–") for row in self.rows)
        ]
        rows = tuple(tuple(row[number] for number in kept) for row in self.rows)
        left = sum(number < self.left for number in kept)
        return replace(self, columns=tuple(self.columns[number] for number in kept), rows=rows, left=left)

    def without_repeated_words(self) -> Table:
        """The same with long words that nearly all rows of a column share in the caption instead."""
        rows, notes = self.rows, [self.caption] if self.caption else []
        for number in range(1, self.left):
            words, count = Counter(row[number].text for row in rows).most_common(1)[0] if rows else ("", 0)
            if len(words) < LONG or count < max(2, MOST * len(rows)):
                continue
            where = "in every row" if count == len(rows) else "where nothing else stands"
            notes.append(f"{self.columns[number].capitalize()} {where}: {words}.")
            rows = tuple(
                (*row[:number], Cell("") if row[number].text == words else row[number], *row[number + 1 :])
                for row in rows
            )
        return replace(self, rows=rows, caption=" ".join(notes))

    def to_markdown(self) -> str:
        """A pipe table; the title above it, the caption below."""
        lines = [
            _pipes(map(_line, self.columns)),
            _pipes("---" if number < self.left else "---:" for number in range(len(self.columns))),
            *(
                _pipes(_marked(cell, _line(cell.text).replace("|", r"\|"), "**{}**", ARROWS) for cell in row)
                for row in self.rows
            ),
        ]
        parts = [f"**{self.title}**" if self.title else "", "\n".join(lines), self.caption]
        return "\n\n".join(part for part in parts if part) + "\n"

    def to_latex(self) -> str:
        """A `tabular` between the rules of the package booktabs."""
        kinds = "l" * self.left + "r" * (len(self.columns) - self.left)
        lines = [
            rf"% {self.title}",
            rf"\begin{{tabular}}{{{kinds}}}",
            r"\toprule",
            _latex_row(map(_latex_text, self.columns)),
            r"\midrule",
            *(
                _latex_row(_marked(cell, _latex_text(cell.text), r"\textbf{{{}}}", _LATEX_ARROWS) for cell in row)
                for row in self.rows
            ),
            r"\bottomrule",
            r"\end{tabular}",
        ]
        return "\n".join(lines) + "\n"

    def to_csv(self) -> str:
        """Plain texts, without marks: for a spreadsheet."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([csv_cell(_line(name)) for name in self.columns])
        writer.writerows([csv_cell(cell.text) for cell in row] for row in self.rows)
        return stream.getvalue()

    def to_html(self) -> str:
        """A `table` element; the look is left to the page."""
        kinds = [None if number < self.left else "figure" for number in range(len(self.columns))]
        heads = (element("th", _lines(name), class_=kind) for name, kind in zip(self.columns, kinds, strict=True))
        body = (element("tr", *map(_html, row, kinds)) for row in self.rows)
        title = element("caption", text(self.title)) if self.title else ""
        note = element("p", text(self.caption), class_="note") if self.caption else ""
        whole = element("table", title, element("thead", element("tr", *heads)), element("tbody", *body))
        # A table that is too wide scrolls within itself; whoever has no mouse must be able to reach it.
        return element("div", whole, class_="table", tabindex="0") + note

    def to_rich(self) -> RichTable:
        """For the terminal."""
        from rich.markup import escape
        from rich.table import Table as RichTable

        shown = RichTable(title=escape(self.title) or None, caption=escape(self.caption) or None)
        for number, name in enumerate(self.columns):
            side: Literal["left", "right"] = "left" if number < self.left else "right"
            shown.add_column(escape(name), justify=side, overflow="fold")  # a name is never cut
        for row in self.rows:
            shown.add_row(*(_marked(cell, escape(cell.text), "[bold]{}[/bold]", _RICH_ARROWS) for cell in row))
        return shown


def _pipes(texts: Iterable[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _marked(cell: Cell, text: str, bold: str, arrows: Mapping[Mark, str]) -> str:
    """The text of a cell, escaped already, in bold and with an arrow where the cell has these."""
    text = bold.format(text) if cell.bold and text else text
    return f"{text} {arrows[cell.mark]}".rstrip()


def _line(text: str) -> str:
    return text.replace("\n", " ")


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in _line(text))


def _latex_row(texts: Iterable[str]) -> str:
    return " & ".join(texts) + r" \\"


def _lines(content: str) -> str:
    return text(content).replace("\n", "<br>")


def _html(cell: Cell, kind: str | None) -> str:
    return element("td", _marked(cell, _lines(cell.text), "<b>{}</b>", _HTML_ARROWS), class_=kind)
