"""Accuracies and paired differences as tables, in the paper's layout: methods down, targets across."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from cplsr.records.results import AccuracyRow, PairedRow, Results
from cplsr.report.markup import number
from cplsr.report.tables import Cell, Mark, Table, best_of_most

if TYPE_CHECKING:
    from cplsr.evaluation.published import PaperBeside, PublishedCell


def accuracy_table(results: Results, shot: int) -> Table:
    """All methods at one shot: the best of each target in bold, significant changes against frozen marked.

    A method measured on fewer episodes than others is never the best: it may be high by chance.
    """
    averaged = any(row.shot == shot for row in results.averages())
    rows = tuple(
        (
            Cell(method),
            *(accuracy_cell(results, method, target, shot) for target in results.targets),
            *([average_cell(results, method, shot)] if averaged else []),
        )
        for method in results.methods
    )
    shown = [row for row in results.rows if row.shot == shot]
    first, counts = shown[0], _episodes(shown)
    return Table(
        title=f"{shot}-shot, {first.way}-way accuracy in %",
        columns=("method", *results.targets, *(["average"] if averaged else [])),
        rows=rows,
        caption=(
            f"{max(counts.values()):,} episodes, {first.query} queries per class; {_legend(results)}.{_fewer(counts)}"
        ),
    )


def whole_accuracy_table(results: Results, beside: PaperBeside, *, methods_down: bool = True) -> Table:
    """All methods at all shots, and the paper's figures under ours.

    methods_down: else methods stand across and targets down, which is narrower.
    """
    places = [(target, shot) for target in results.targets for shot in results.shots]
    averaged = {row.shot for row in results.averages()}
    averages = [shot for shot in results.shots if shot in averaged]
    cells = {
        method: [
            *(accuracy_cell(results, method, target, shot) for target, shot in places),
            *(average_cell(results, method, shot) for shot in averages),
        ]
        for method in results.methods
    }
    for system, figures in beside.cells.items():
        cells[f"paper: {system}"] = [
            *(_paper_cell(figures.get(place)) for place in places),
            *(_paper_average(figures, results.targets, shot) for shot in averages),
        ]
    names = [*places, *(("average", shot) for shot in averages)]
    first = results.rows[0]
    counts = _episodes(results.rows)
    paper = "; paper: as printed there, base set mini-ImageNet" if beside.cells else ""
    title = f"{first.way}-way accuracy in %, {max(counts.values()):,} episodes, {first.query} queries per class"
    caption = f"{_legend(results)}{paper}.{_fewer(counts)}"
    if methods_down:
        columns = ("method", *(f"{name}\n{shot}-shot" for name, shot in names))
        return Table(title, columns, tuple((Cell(method), *row) for method, row in cells.items()), caption)
    rows = tuple(
        (Cell(name), Cell(str(shot)), *(row[place] for row in cells.values()))
        for place, (name, shot) in enumerate(names)
    )
    return Table(title, ("target", "shot", *cells), rows, caption)


def paired_table(results: Results) -> Table:
    """Every difference on the same episodes, with its interval and the share of episodes that got better."""
    rows = tuple(
        (
            Cell(row.method),
            Cell(row.against),
            Cell(row.target),
            Cell(str(row.shot)),
            Cell(_with_interval(row.difference, row.ci95, sign=True), bold=row.significant, mark=_mark(row)),
            Cell(f"{row.wins:.0%}"),
        )
        for row in results.paired
    )
    return Table(
        title="Difference on the same episodes, percentage points",
        columns=("method", "against", "target", "shot", "difference", "episodes better"),
        rows=rows,
        caption="± 95 % interval of the paired difference; bold where it excludes 0.",
        left=3,
    )


def accuracy_cell(results: Results, method: str, target: str, shot: int) -> Cell:
    """One method on one target; bold where it is the best of several."""
    row = results.row(method, target, shot)
    if row is None:
        return Cell("–")
    rivals = [other for other in results.rows if (other.target, other.shot) == (target, shot)]
    best = best_of_most((other.accuracy, other.episodes) for other in rivals)
    return Cell(
        _with_interval(row.accuracy, row.ci95),
        bold=len(results.methods) > 1 and (row.accuracy, row.episodes) == best,
        mark=_mark(results.paired_row(method, target, shot)),
    )


def average_cell(results: Results, method: str, shot: int) -> Cell:
    """One method's mean over the targets; bold where it is the best of several."""
    counts = _episodes(row for row in results.rows if row.shot == shot)
    ranks = {row.method: (row.accuracy, counts[row.method]) for row in results.averages() if row.shot == shot}
    if method not in ranks:
        return Cell("–")
    bold = len(results.methods) > 1 and ranks[method] == best_of_most(ranks.values())
    return Cell(number(ranks[method][0]), bold=bold)


def _episodes(rows: Iterable[AccuracyRow]) -> dict[str, int]:
    """On how many episodes each method was measured, at least."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.method] = min(row.episodes, counts.get(row.method, row.episodes))
    return counts


def _legend(results: Results) -> str:
    marks = "; ▲ ▼ significantly above or below frozen on the same episodes" if results.paired else ""
    return f"± 95 % interval{marks}"


def _fewer(counts: Mapping[str, int]) -> str:
    most = max(counts.values())
    return "".join(f" {method}: {count:,} episodes only." for method, count in counts.items() if count < most)


def _paper_cell(cell: PublishedCell | None) -> Cell:
    return Cell("") if cell is None else Cell(_with_interval(cell.accuracy, cell.ci95))


def _paper_average(figures: Mapping[tuple[str, int], PublishedCell], targets: tuple[str, ...], shot: int) -> Cell:
    """Over the targets that were measured here, where the paper has them all."""
    cells = [figures.get((target, shot)) for target in targets]
    known = [cell.accuracy for cell in cells if cell is not None]
    return Cell(number(sum(known) / len(known)) if len(known) == len(cells) else "")


def _with_interval(value: float, half_width: float | None, *, sign: bool = False) -> str:
    return number(value, sign=sign) + ("" if half_width is None else f" ±{number(half_width)}")


def _mark(row: PairedRow | None) -> Mark:
    if row is None or not row.significant:
        return ""
    return "better" if row.difference > 0 else "worse"
