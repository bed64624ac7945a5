"""Lines and tables on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WARNING = "yellow"


def print_plain(console: Console, line: str, style: str | None = None) -> None:
    """Print a line as it is: brackets in names and paths are no markup, and numbers are not colored."""
    console.print(line, style=style, highlight=False, markup=False)


def fits(console: Console, table: Table) -> bool:
    """Whether a table has room on the terminal without its cells being cut or wrapped."""
    unlimited = console.options.update(max_width=10_000)
    return console.measure(table, options=unlimited).maximum <= console.width
