"""Accuracies and paired differences as tables, in the paper's layout: methods down, targets across."""

from __future__ import annotations

from cplsr.evaluation.results import PairedRow, Results
from cplsr.report.markup import number
from cplsr.report.tables import Cell, Mark, Table, best_of_most


def accuracy_table(results: Results, shot: int) -> Table:
    """All methods at one shot: the best of each target in bold, significant changes against frozen marked.

    A method measured on fewer episodes than others is never the best: it may be high by chance.
    """
    averages = {row.method: row.accuracy for row in results.averages() if row.shot == shot}
    counts = _episodes(results, shot)
    most = max(counts.values())
    best = best_of_most((mean, counts[method]) for method, mean in averages.items())
    several = len(results.methods) > 1
    columns = ["method", *results.targets, *(["average"] if averages else [])]
    rows = []
    for method in results.methods:
        cells = [Cell(method), *(_accuracy(results, method, target, shot) for target in results.targets)]
        if averages:
            mean = averages.get(method)
            bold = several and mean is not None and (mean, counts[method]) == best
            cells.append(Cell(number(mean), bold=bold))
        rows.append(tuple(cells))
    first = next(row for row in results.rows if row.shot == shot)
    marks = "; ▲ ▼ significantly above or below frozen on the same episodes" if results.paired else ""
    fewer = "".join(f" {method}: {count:,} episodes only." for method, count in counts.items() if count < most)
    return Table(
        title=f"{shot}-shot, {first.way}-way accuracy in %",
        columns=tuple(columns),
        rows=tuple(rows),
        caption=f"{most:,} episodes, {first.query} queries per class; ± 95 % interval{marks}.{fewer}",
    )


def _episodes(results: Results, shot: int) -> dict[str, int]:
    """On how many episodes each method was measured, at least."""
    counts: dict[str, int] = {}
    for row in results.rows:
        if row.shot == shot:
            counts[row.method] = min(row.episodes, counts.get(row.method, row.episodes))
    return counts


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


def _accuracy(results: Results, method: str, target: str, shot: int) -> Cell:
    row = results.row(method, target, shot)
    if row is None:
        return Cell("–")
    rivals = [other for other in results.rows if (other.target, other.shot) == (target, shot)]
    best = best_of_most((other.accuracy, other.episodes) for other in rivals)
    bold = len(results.methods) > 1 and (row.accuracy, row.episodes) == best
    return Cell(_with_interval(row.accuracy, row.ci95), bold=bold, mark=_mark(results.paired_row(method, target, shot)))


def _with_interval(value: float, half_width: float | None, *, sign: bool = False) -> str:
    return number(value, sign=sign) + ("" if half_width is None else f" ±{number(half_width)}")


def _mark(row: PairedRow | None) -> Mark:
    if row is None or not row.significant:
        return ""
    return "better" if row.difference > 0 else "worse"
