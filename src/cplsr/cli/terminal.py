"""Lines and tables on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from cplsr.report.tables import Table

WARNING = "yellow"


def terminal(*, soft_wrap: bool = False) -> Console:
    """What is printed to: numbers are not colored, and `:x:` in names and paths is no picture."""
    from rich.console import Console

    return Console(highlight=False, emoji=False, soft_wrap=soft_wrap)


def print_plain(console: Console, line: str, style: str | None = None) -> None:
    """Print a line as it is: brackets in names and paths are no markup."""
    console.print(line, style=style, markup=False)


def print_table(console: Console, table: Table, narrower: Sequence[Table] = ()) -> None:
    """Print a table, or where the terminal has no room for it without cutting or wrapping cells, narrower ones."""
    unlimited = console.options.update(max_width=10_000)
    fits = console.measure(table.to_rich(), options=unlimited).maximum <= console.width
    for shown in [table] if fits or not narrower else narrower:
        console.print(shown.to_rich())
