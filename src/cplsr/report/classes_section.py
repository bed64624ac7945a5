"""Classes: which are recognized, which are taken for which; and whether confidences hold."""

from __future__ import annotations

from cplsr.records.results import ConfusionRow, Results
from cplsr.report.differences import before_after_chart
from cplsr.report.figures import figures
from cplsr.report.heat_map import MANY, heat_map
from cplsr.report.lines import reliability_chart
from cplsr.report.markup import element, listed, number, text
from cplsr.report.sections import table_with_sources
from cplsr.report.tables import Cell, Cells, Table, table

MOST_CLASSES = 40
CONFUSIONS = (
    "A row of a map is a true class, a column what its queries were taken for, in percent of the row. A query can "
    "only be taken for a class of its own episode. Recall is the share of a class's queries that were recognized."
)
CALIBRATION = (
    "Of the answers a method is 70 % sure of, 70 % should be right: points below the dotted line are answers it is "
    "too sure of, points above it those it doubts too much. ECE, the expected calibration error, is the mean gap."
)


def confusions(results: Results) -> str:
    """Confusions and recall on every target at its largest shot."""
    parts = []
    for target in results.targets:
        rows = [row for row in results.confusion if row.target == target]
        if not rows:
            continue
        shot = max(row.shot for row in rows)
        at_shot = {row.method: row for row in rows if row.shot == shot}
        shown = at_shot[best_method(results, list(at_shot), target, shot)]
        drawings = figures([_confusion(shown), _recalls(list(at_shot.values()), shown, results.reference)])
        parts.append(element("h3", text(f"{target}, {shot}-shot")) + drawings)
    return "".join(parts)


def best_method(results: Results, methods: list[str], target: str, shot: int) -> str:
    """The most accurate of some methods on a target; the reference only where it is alone."""
    others = [method for method in methods if method != results.reference] or methods
    rows = {method: results.row(method, target, shot) for method in others}
    return max(others, key=lambda method: -1.0 if (row := rows[method]) is None else row.accuracy)


def _confusion(row: ConfusionRow) -> str:
    shares = [[100 * count / max(1, sum(counts)) for count in counts] for counts in row.counts]
    top = max(max(line) for line in shares)
    pairs = sorted(
        ((share, i, j) for i, line in enumerate(shares) for j, share in enumerate(line) if i != j and share > 0),
        key=lambda pair: (-pair[0], pair[1:]),
    )
    worst = [f"{row.classes[i]} for {row.classes[j]} ({number(share, 0)} %)" for share, i, j in pairs[:3]]
    spoken = f"Most often taken: {listed(worst)}." if worst else "Nothing was confused."
    many = len(row.classes) > MANY
    return heat_map(
        shares,
        row.classes,
        row.classes,
        title=f"Confusions of {row.method} on {row.target}",
        description=spoken,
        axis_names=("true", "taken for, in the order of the rows" if many else "taken for"),
        high=top,
        digits=0,
        caption=f"{row.method}: confusions in %, darkest {number(top, 0)} %. {spoken}",
        wide=many,
    )


def _recalls(rows: list[ConfusionRow], shown: ConfusionRow, reference: str) -> str:
    series = [row for row in rows if row.classes == shown.classes and row.method in (reference, shown.method)]
    ranked = sorted(range(len(shown.classes)), key=lambda label: shown.recall[label])
    cut = f" (the lowest {MOST_CLASSES} of {len(ranked)})" if len(ranked) > MOST_CLASSES else ""
    return before_after_chart(
        [(shown.classes[label], [100 * row.recall[label] for row in series]) for label in ranked[:MOST_CLASSES]],
        [row.method for row in series],
        title=f"Recall of the classes of {shown.target}",
        axis="recall, %",
        caption=f"Recall by class, lowest first{cut}",
    )


def calibrations(results: Results) -> str:
    """The error of every method on every target, and reliability diagrams at the largest shot."""
    if not results.calibration:
        return ""
    shot = max(row.shot for row in results.calibration)
    series = {method: number for number, method in enumerate(results.methods)}
    parts = [table_with_sources(calibration_table(results))]
    for target in results.targets:
        rows = [row for row in results.calibration if (row.target, row.shot) == (target, shot)]
        if drawings := [reliability_chart(row, series[row.method]) for row in rows if row.method in series]:
            parts.append(element("h3", text(f"{target}, {shot}-shot")) + figures(drawings))
    return "".join(parts)


def calibration_table(results: Results) -> Table:
    """Expected calibration errors in percent, the lowest of each target and shot in bold."""
    errors: dict[tuple[str, int], dict[str, float]] = {}
    for row in results.calibration:
        errors.setdefault((row.target, row.shot), {})[row.method] = 100 * row.ece
    methods = [method for method in results.methods if any(method in known for known in errors.values())]
    rows: list[Cells] = []
    for (target, shot), known in errors.items():
        lowest = min(known.values()) if len(known) > 1 else None
        cells = [Cell(number(known.get(m), 1), bold=m in known and known[m] == lowest) for m in methods]
        rows.append((target, str(shot), *cells))
    return table("Expected calibration error in % (lower is better)", ("target", "shot", *methods), rows)
