"""A page is a row of sections; those with nothing to say are left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from cplsr.report.markup import element, text
from cplsr.report.tables import Table

T = TypeVar("T")


@dataclass(frozen=True)
class Section:
    """A heading, the word its address ends in, and what stands below it; folded where few read that."""

    key: str
    title: str
    body: str
    folded: bool = False

    def to_html(self) -> str:
        """The section as an element of the page."""
        heading = element("h2", text(self.title))
        if not self.folded:
            return element("section", heading, self.body, id=self.key)
        # The address is inside what is folded, so that browsers unfold it for whoever follows a link.
        return element("section", details(heading, element("div", self.body, id=self.key)))


def section(
    key: str,
    title: str,
    entries: Sequence[tuple[str, T]],
    write: Callable[[T], str],
    explanation: str = "",
    *,
    folded: bool = False,
) -> Section:
    """What there is to say of each of several inputs, below a sentence on how to read it."""
    body = parts(entries, write)
    return Section(key, title, paragraph(explanation) + body if explanation and body else body, folded)


def parts(entries: Sequence[tuple[str, T]], write: Callable[[T], str]) -> str:
    """What is written of each input, under its name where there is more than one; those without a word are left out."""
    bodies = [(element("h3", text(name)) if len(entries) > 1 else "", write(record)) for name, record in entries]
    return "".join(element("div", heading, body, class_="part") for heading, body in bodies if body)


def paragraph(content: str) -> str:
    """One paragraph of plain text."""
    return element("p", text(content))


def details(summary: str, body: str, class_: str = "folded") -> str:
    """What is shown on a click; on paper it is open."""
    return element("details", element("summary", summary), body, class_=class_) if body else ""


def table_with_sources(table: Table) -> str:
    """A table without what is empty or the same nearly everywhere, and folded below it the whole one to copy."""
    shown, table = table.without_repeated_words().without_empty_columns(), table.without_empty_columns()
    kinds = (("Markdown", table.to_markdown()), ("LaTeX", table.to_latex()), ("CSV", table.to_csv()))
    blocks = "".join(element("h4", text(name)) + element("pre", text(content)) for name, content in kinds)
    return shown.to_html() + details("Copy as Markdown, LaTeX or CSV", blocks, "copy")


def facts(rows: Sequence[tuple[str, str]]) -> str:
    """Names and values, one under the other."""
    items = [element("div", element("dt", text(name)), element("dd", text(value))) for name, value in rows if value]
    return element("dl", *items, class_="facts")


def callout(title: str, notes: Sequence[str], class_: str) -> str:
    """Remarks that must not be overlooked."""
    if not notes:
        return ""
    items = element("ul", *(element("li", text(note)) for note in notes))
    return element("aside", element("strong", text(title)), items, class_=f"callout {class_}", role="note")
