"""Accuracies and paired differences as tables, in the paper's layout: methods down, targets across."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cplsr.records.estimate import Estimate
from cplsr.records.results import AccuracyRow, Results
from cplsr.report.tables import Cell, Table, best_of_most, table

DIRICHLET = "Dirichlet"
"""What columns and rows with unbalanced queries are called."""

Column = tuple[str | None, int, str]
"""Target, or `None` for the average of all; shot; `DIRICHLET` or nothing."""

TOGETHER = "†"
"""The sign of methods that see the queries of an episode together."""


def accuracy_table(results: Results, shot: int) -> Table:
    """All methods at one shot: the best of each target in bold, significant changes against frozen marked.

    A method measured on fewer episodes than others is never the best: it may be high by chance.
    """
    shown = [row for row in results.rows if row.shot == shot]
    counts = _episodes(shown)
    columns = _columns(results, [shot])
    return table(
        f"{shot}-shot, {shown[0].way}-way accuracy in %",
        ("method", *(f"{name or 'average'}\n{kind}".rstrip() for name, _, kind in columns)),
        [(_signed(results, method), *_across(columns, method)) for method in results.methods],
        f"{max(counts.values()):,} episodes, {_queries(shown[0])}; {_legend(results)}.{_fewer(counts)}",
    )


def whole_accuracy_table(results: Results, *, methods_down: bool = True) -> Table:
    """All methods at all shots; with `methods_down` off they stand across and targets down, which is narrower."""
    columns = _columns(results, results.shots)
    cells = {_signed(results, method): _across(columns, method) for method in results.methods}
    first = results.rows[0]
    counts = _episodes(results.rows)
    title = f"{first.way}-way accuracy in %, {max(counts.values()):,} episodes, {_queries(first)}"
    caption = f"{_legend(results)}.{_fewer(counts)}"
    if methods_down:
        heads = ("method", *(f"{name or 'average'}\n{shot}-shot\n{kind}".rstrip() for name, shot, kind in columns))
        return table(title, heads, [(method, *row) for method, row in cells.items()], caption)
    rows = zip(columns, *cells.values(), strict=True)
    lines = [(name or "average", f"{shot} {kind}".rstrip(), *row) for (name, shot, kind), *row in rows]
    return table(title, ("target", "shot", *cells), lines, caption)


def paired_table(results: Results) -> Table:
    """Every difference on the same episodes, with its interval and the share of episodes that got better."""
    rows = []
    for kind, side in _sides(results):
        for row in side.paired:
            change = row.estimate
            cell = Cell(change.written(sign=True), bold=change.significant, mark=change.mark)
            method, shot = _signed(results, row.method), f"{row.shot} {kind}".rstrip()
            rows.append((method, row.against, row.target, shot, cell, f"{row.wins:.0%}"))
    return table(
        "Difference on the same episodes, percentage points",
        ("method", "against", "target", "shot", "difference", "episodes better"),
        rows,
        f"± 95 % interval of the paired difference; bold where it excludes 0{_signs(results)}.",
        left=3,
    )


def _columns(results: Results, shots: Sequence[int]) -> dict[Column, dict[str, Cell]]:
    """All targets and shots, then the averages over several targets, each on all kinds of queries; cells by method."""
    averaged = {row.shot for row in results.averages()}
    targets = [(target, shot) for target in results.targets for shot in shots]
    places = [*targets, *((None, shot) for shot in shots if shot in averaged)]
    return {(name, shot, kind): _column(side, name, shot) for name, shot in places for kind, side in _sides(results)}


def _column(results: Results, target: str | None, shot: int) -> dict[str, Cell]:
    """What the methods reached on a target, or on average; bold where one is the best of several."""
    rows = [row for row in results.rows if row.shot == shot]
    if target is None:
        counts = _episodes(rows)
        averages = [row for row in results.averages() if row.shot == shot]
        reached = {row.method: (Estimate(row.accuracy), counts[row.method]) for row in averages}
    else:
        reached = {row.method: (row.estimate, row.episodes) for row in rows if row.target == target}
    best = best_of_most((figure.mean, episodes) for figure, episodes in reached.values())
    changes = {row.method: row.estimate for row in results.paired if (row.target, row.shot) == (target, shot)}
    return {
        method: Cell(
            figure.written(),
            bold=len(results.methods) > 1 and (figure.mean, episodes) == best,
            mark=changes[method].mark if method in changes else "",
        )
        for method, (figure, episodes) in reached.items()
    }


def _across(columns: Mapping[Column, Mapping[str, Cell]], method: str) -> list[Cell]:
    return [cells.get(method, Cell("–")) for cells in columns.values()]


def _sides(results: Results) -> list[tuple[str, Results]]:
    """The figures on balanced queries, and beside them those on unbalanced ones where both were measured."""
    return [("", results), *([] if results.dirichlet is None else [(DIRICHLET, results.dirichlet)])]


def _episodes(rows: Iterable[AccuracyRow]) -> dict[str, int]:
    """On how many episodes each method was measured, at least."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.method] = min(row.episodes, counts.get(row.method, row.episodes))
    return counts


def _legend(results: Results) -> str:
    marks = f"; ▲ ▼ significantly above or below {results.reference} on the same episodes" if results.paired else ""
    return f"± 95 % interval{marks}{_signs(results)}"


def _signed(results: Results, method: str) -> str:
    return f"{method} {TOGETHER}" if method in results.together else method


def _signs(results: Results) -> str:
    """What the signs of methods and columns mean."""
    together = f"; {TOGETHER} sees the queries of an episode together" if results.together else ""
    uneven = "; Dirichlet: as many queries, unequally many of each class" if results.dirichlet is not None else ""
    return together + uneven


def _queries(row: AccuracyRow) -> str:
    uneven = " on average, in shares drawn from Dirichlet(2)" if row.queries == "dirichlet" else ""
    return f"{row.query} queries per class{uneven}"


def _fewer(counts: Mapping[str, int]) -> str:
    most = max(counts.values())
    return "".join(f" {method}: {count:,} episodes only." for method, count in counts.items() if count < most)
