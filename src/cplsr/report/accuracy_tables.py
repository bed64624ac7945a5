"""Accuracies and paired differences as tables, in the paper's layout: methods down, targets across."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from cplsr.records.results import AccuracyRow, PairedRow, Results
from cplsr.report.estimates import Estimate
from cplsr.report.markup import number
from cplsr.report.tables import Cell, Mark, Table, best_of_most, table

if TYPE_CHECKING:
    from cplsr.evaluation.published import PaperBeside, PublishedCell


def accuracy_table(results: Results, shot: int) -> Table:
    """All methods at one shot: the best of each target in bold, significant changes against frozen marked.

    A method measured on fewer episodes than others is never the best: it may be high by chance.
    """
    shown = [row for row in results.rows if row.shot == shot]
    first, counts = shown[0], _episodes(shown)
    averages = ["average" for _ in _averaged(results, [shot])]
    return table(
        f"{shot}-shot, {first.way}-way accuracy in %",
        ("method", *results.targets, *averages),
        [(method, *_cells(results, method, [shot])) for method in results.methods],
        f"{max(counts.values()):,} episodes, {first.query} queries per class; {_legend(results)}.{_fewer(counts)}",
    )


def whole_accuracy_table(results: Results, beside: PaperBeside, *, methods_down: bool = True) -> Table:
    """All methods at all shots, and the paper's figures under ours.

    Args:
        results: what was measured.
        beside: the paper's figures of the same targets and shots.
        methods_down: else methods stand across and targets down, which is narrower.
    """
    averages = _averaged(results, results.shots)
    cells = {method: _cells(results, method, results.shots) for method in results.methods}
    columns = [(target, shot) for target in results.targets for shot in results.shots]
    for system, published in beside.cells.items():
        cells[f"paper: {system}"] = [
            *(_paper_cell(published.get(column)) for column in columns),
            *(_paper_average(published, results.targets, shot) for shot in averages),
        ]
    columns += [("average", shot) for shot in averages]
    first = results.rows[0]
    counts = _episodes(results.rows)
    paper = "; paper: as printed there, base set mini-ImageNet" if beside.cells else ""
    title = f"{first.way}-way accuracy in %, {max(counts.values()):,} episodes, {first.query} queries per class"
    caption = f"{_legend(results)}{paper}.{_fewer(counts)}"
    if methods_down:
        heads = ("method", *(f"{name}\n{shot}-shot" for name, shot in columns))
        return table(title, heads, [(method, *row) for method, row in cells.items()], caption)
    rows = [(name, str(shot), *row) for (name, shot), *row in zip(columns, *cells.values(), strict=True)]
    return table(title, ("target", "shot", *cells), rows, caption)


def paired_table(results: Results) -> Table:
    """Every difference on the same episodes, with its interval and the share of episodes that got better."""
    rows = []
    for row in results.paired:
        change = Estimate(row.difference, row.ci95)
        cell = Cell(change.written(sign=True), bold=row.significant, mark=change.mark)
        rows.append((row.method, row.against, row.target, str(row.shot), cell, f"{row.wins:.0%}"))
    return table(
        "Difference on the same episodes, percentage points",
        ("method", "against", "target", "shot", "difference", "episodes better"),
        rows,
        "± 95 % interval of the paired difference; bold where it excludes 0.",
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
        Estimate(row.accuracy, row.ci95).written(),
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


def _cells(results: Results, method: str, shots: Sequence[int]) -> list[Cell]:
    """A method on every target at every shot, then its averages."""
    cells = [accuracy_cell(results, method, target, shot) for target in results.targets for shot in shots]
    return cells + [average_cell(results, method, shot) for shot in _averaged(results, shots)]


def _averaged(results: Results, shots: Sequence[int]) -> list[int]:
    """The shots at which some method was measured on all of several targets."""
    known = {row.shot for row in results.averages()}
    return [shot for shot in shots if shot in known]


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
    return Cell("") if cell is None else Cell(Estimate(cell.accuracy, cell.ci95).written())


def _paper_average(figures: Mapping[tuple[str, int], PublishedCell], targets: tuple[str, ...], shot: int) -> Cell:
    """Over the targets that were measured here, where the paper has them all."""
    cells = [figures.get((target, shot)) for target in targets]
    known = [cell.accuracy for cell in cells if cell is not None]
    return Cell(number(sum(known) / len(known)) if len(known) == len(cells) else "")


def _mark(row: PairedRow | None) -> Mark:
    return "" if row is None else Estimate(row.difference, row.ci95).mark
