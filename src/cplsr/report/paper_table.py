"""The paper's tables, and one's own results under its figures: the one place where both stand side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cplsr.errors import InputError
from cplsr.evaluation.published import PublishedTable, benchmark_targets, remarks_beside
from cplsr.records.results import Results
from cplsr.report.tables import Cell, Cells, Table, table


def paper_table(published: PublishedTable, results: Results | None = None) -> Table:
    """Lay out a table of the paper, shot after shot, the best of each column in bold.

    Your own results, which must have one of the paper's targets, stand below its figures and are never bold.
    """
    with_architecture = any(row.architecture for row in published.rows)
    heads = ("shot", "system", *(["backbone"] if with_architecture else []))
    rows: list[Cells] = []
    for shot in published.shots:
        rows += _paper_rows(published, shot, with_architecture)
        if results is not None:
            rows += _own_rows(published, results, shot, with_architecture)
    notes = [*published.notes, *([] if results is None else (f"→ {remark}" for remark in remarks_beside(results)))]
    if any(row.average_disagrees for row in published.rows):
        notes.append("* printed so, but not the average of the cells")
    columns = (*heads, *published.targets, "average")
    return table(published.title, columns, rows, "; ".join(notes), len(heads))


def by_shot(whole: Table) -> list[Table]:
    """Split a table for a narrow screen: one for each shot, without that column, intervals below the figures."""
    shots = list(dict.fromkeys(row[0].text for row in whole.rows))
    return [
        replace(
            whole,
            title=f"{whole.title}, {shot}-shot",
            columns=whole.columns[1:],
            rows=tuple(
                tuple(replace(cell, text=cell.text.replace(" ±", "\n±")) for cell in row[1:])
                for row in whole.rows
                if row[0].text == shot
            ),
            caption=whole.caption if shot == shots[-1] else "",
            left=whole.left - 1,
        )
        for shot in shots
    ]


def _paper_rows(published: PublishedTable, shot: int, with_architecture: bool) -> Iterator[Cells]:
    rows = [row for row in published.rows if row.shot == shot]
    best = {target: max(row.cells[target].mean for row in rows if row.cells) for target in published.targets}
    best_average = max(row.average for row in rows)
    for row in rows:
        labels = (str(shot), row.system, *([row.architecture or ""] if with_architecture else []))
        average = f"{row.average:.2f}" + ("*" if row.average_disagrees else "")
        known = {target: row.cells.get(target) for target in published.targets}
        cells = [
            "" if cell is None else Cell(cell.written(), bold=cell.mean == best[target])
            for target, cell in known.items()
        ]
        yield *labels, *cells, Cell(average, bold=row.average == best_average)


def _own_rows(published: PublishedTable, results: Results, shot: int, with_architecture: bool) -> Iterator[Cells]:
    own = {title: name for name, title in reversed(benchmark_targets(results).items())}  # the first of equals
    if not own:
        raise InputError(
            f"the results are on {', '.join(results.targets)}, the paper's on {', '.join(published.targets)}: "
            "name the targets so, as in --target EuroSAT=DIR"
        )
    source = str(results.settings.get("backbone", {}).get("source", ""))
    for method in results.methods:
        own_results = [results.row(method, own[title], shot) if title in own else None for title in published.targets]
        if not any(own_results):
            continue
        figures = ["" if row is None else row.estimate.written() for row in own_results]
        known = [row.accuracy for row in own_results if row is not None]
        average = f"{sum(known) / len(known):.2f}" if len(known) == len(own_results) else ""
        labels = (str(shot), f"→ {method}", *([Path(source).name or source] if with_architecture else []))
        yield *labels, *figures, average
