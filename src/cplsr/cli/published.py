"""`cplsr published`: the paper's tables and one of methods since, and one's own results under them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from cplsr.cli.options import parse
from cplsr.cli.terminal import print_table, terminal
from cplsr.declared import Declared
from cplsr.report.tables import Table

Format = Literal["terminal", "markdown", "latex", "csv"]


@dataclass(frozen=True)
class Published(Declared):
    """Print the paper's tables, and one of methods since: 5-way accuracy in percent on the targets of BSCD-FSL."""

    table: tyro.conf.Positional[Literal["mini", "tiered", "ablation", "ablation-details", "since"] | None] = None
    """Which one; all of them by default."""
    format: Format = "terminal"
    """How to write it."""
    beside: Path | None = None
    """A file written by `cplsr evaluate --out`: its methods stand under the paper's, marked with →."""


def main(arguments: list[str]) -> int:
    """Parse the options and print."""
    from cplsr.evaluation.published import TABLES, published_table
    from cplsr.records.results import Results
    from cplsr.report.paper_table import paper_table

    options = parse(Published, "published", arguments)
    results = None if options.beside is None else Results.read(options.beside)
    names = TABLES if options.table is None else (options.table,)
    show([paper_table(published_table(name), results) for name in names], options.format)
    return 0


def show(tables: list[Table], form: Format) -> None:
    """Print tables, an empty line between them."""
    if form == "terminal":
        from cplsr.report.paper_table import by_shot

        console = terminal()
        for table in tables:
            print_table(console, table, by_shot(table))
        return
    print("\n".join(getattr(table, f"to_{form}")() for table in tables), end="")
