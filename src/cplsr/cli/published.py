"""`cplsr published`: the paper's tables and one of methods since, and one's own results under them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from cplsr.cli.options import parse
from cplsr.cli.terminal import fits
from cplsr.declared import Declared
from cplsr.errors import InputError

if TYPE_CHECKING:
    from cplsr.evaluation.published import PublishedCell, PublishedTable
    from cplsr.records.results import Results
    from cplsr.report.tables import Cell, Table

Format = Literal["terminal", "markdown", "latex", "csv"]


@dataclass(frozen=True)
class Published(Declared):
    """Print the paper's tables, and one of methods since: 5-way accuracy in percent on the targets of BSCD-FSL."""

    table: Annotated[
        Literal["mini", "tiered", "ablation", "ablation-details", "since"] | None, tyro.conf.Positional
    ] = None
    """Which one; all of them by default."""
    format: Format = "terminal"
    """How to write it."""
    beside: Path | None = None
    """A file written by `cplsr evaluate --out`: its methods stand under the paper's, marked with →."""


def main(arguments: list[str]) -> int:
    """Parse the options and print."""
    from cplsr.evaluation.published import TABLES, published_table
    from cplsr.records.results import Results

    options = parse(Published, "published", arguments)
    results = None if options.beside is None else Results.read(options.beside)
    names = TABLES if options.table is None else (options.table,)
    show([table_of(published_table(name), results) for name in names], options.format)
    return 0


def show(tables: list[Table], form: Format) -> None:
    """Print tables, an empty line between them."""
    if form == "terminal":
        from rich.console import Console

        console = Console()
        for table in tables:
            for part in [table] if fits(console, table.to_rich()) else by_shot(table):
                console.print(part.to_rich())
        return
    writers = {"markdown": "to_markdown", "latex": "to_latex", "csv": "to_csv"}
    print("\n".join(getattr(table, writers[form])() for table in tables), end="")


def table_of(published: PublishedTable, results: Results | None = None) -> Table:
    """Lay out a table of the paper, shot after shot, the best of each column in bold.

    Args:
        published: The paper's figures.
        results: Your own, which stand below them and are never bold.

    Raises:
        InputError: If none of your targets is one of the paper's.
    """
    from cplsr.report.tables import Cell, Table

    with_architecture = any(row.architecture for row in published.rows)
    heads = ("shot", "system", *(["backbone"] if with_architecture else []))
    rows = []
    for shot in published.shots:
        rows += _paper_rows(published, shot, with_architecture)
        if results is not None:
            rows += _own_rows(published, results, shot, with_architecture)
    notes = [*published.notes, *([] if results is None else _remarks(results))]
    if any(row.average_disagrees for row in published.rows):
        notes.append("* printed so, but not the average of the cells")
    return Table(
        title=published.title,
        columns=(*heads, *published.targets, "average"),
        rows=tuple((*map(Cell, labels), *figures) for labels, figures in rows),
        caption="; ".join(notes),
        left=len(heads),
    )


def by_shot(table: Table) -> list[Table]:
    """Split a table for a narrow screen: one for each shot, without that column, intervals below the figures."""
    shots = list(dict.fromkeys(row[0].text for row in table.rows))
    return [
        replace(
            table,
            title=f"{table.title}, {shot}-shot",
            columns=table.columns[1:],
            rows=tuple(
                tuple(replace(cell, text=cell.text.replace(" ±", "\n±")) for cell in row[1:])
                for row in table.rows
                if row[0].text == shot
            ),
            caption=table.caption if shot == shots[-1] else "",
            left=table.left - 1,
        )
        for shot in shots
    ]


def _paper_rows(
    published: PublishedTable, shot: int, with_architecture: bool
) -> list[tuple[tuple[str, ...], tuple[Cell, ...]]]:
    from cplsr.report.tables import Cell

    rows = [row for row in published.rows if row.shot == shot]
    best = {target: max(row.cells[target].accuracy for row in rows if row.cells) for target in published.targets}
    best_average = max(row.average for row in rows)
    lines = []
    for row in rows:
        labels = (str(shot), row.system, *([row.architecture or ""] if with_architecture else []))
        average = f"{row.average:.2f}" + ("*" if row.average_disagrees else "")
        known = [row.cells.get(target) for target in published.targets]
        cells = [
            Cell("") if cell is None else Cell(_figure(cell), bold=cell.accuracy == best[target])
            for target, cell in zip(published.targets, known, strict=True)
        ]
        lines.append((labels, (*cells, Cell(average, bold=row.average == best_average))))
    return lines


def _own_rows(
    published: PublishedTable, results: Results, shot: int, with_architecture: bool
) -> list[tuple[tuple[str, ...], tuple[Cell, ...]]]:
    from cplsr.evaluation.published import PublishedCell, benchmark_targets
    from cplsr.report.tables import Cell

    own = {title: name for name, title in reversed(benchmark_targets(results).items())}  # the first of equals
    if not own:
        raise InputError(
            f"the results are on {', '.join(results.targets)}, the paper's on {', '.join(published.targets)}: "
            "name the targets so, as in --target EuroSAT=DIR"
        )
    source = str(results.settings.get("backbone", {}).get("source", ""))
    lines = []
    for method in results.methods:
        own_results = [results.row(method, own[title], shot) if title in own else None for title in published.targets]
        if not any(own_results):
            continue
        figures = [Cell("" if row is None else _figure(PublishedCell(row.accuracy, row.ci95))) for row in own_results]
        known = [row.accuracy for row in own_results if row is not None]
        average = f"{sum(known) / len(known):.2f}" if len(known) == len(own_results) else ""
        labels = (str(shot), f"→ {method}", *([Path(source).name or source] if with_architecture else []))
        lines.append((labels, (*figures, Cell(average))))
    return lines


def _remarks(results: Results) -> list[str]:
    from cplsr.evaluation import published

    ways = {row.way for row in results.rows} - {published.WAY}
    remarks = [f"episodes are {way}-way, the paper's {published.WAY}-way" for way in sorted(ways)]
    remarks += filter(None, (published.another_backbone(results), published.unbalanced_queries(results)))
    remarks += (*published.remarks_on_methods(results), *published.remarks_on_data(results))
    return [f"→ {remark}" for remark in remarks]


def _figure(cell: PublishedCell) -> str:
    return f"{cell.accuracy:.2f}" + ("" if cell.ci95 is None else f" ±{cell.ci95:.2f}")
