"""Classes: which are recognized, which are taken for which; and whether confidences hold."""

from __future__ import annotations

from cplsr.records.results import FROZEN, CalibrationRow, ConfusionRow, Results
from cplsr.report.differences import before_after_chart, point_legend
from cplsr.report.figures import figure, figures
from cplsr.report.heat_map import MANY, heat_map
from cplsr.report.markup import element, listed, number, text
from cplsr.report.material import Evaluation
from cplsr.report.reliability import reliability_chart
from cplsr.report.sections import Section, paragraph, part, table_with_sources
from cplsr.report.tables import Cell, Table

MOST_CLASSES = 40


def classes_section(evaluations: tuple[Evaluation, ...]) -> Section:
    """Confusions and recall on every target at its largest shot."""
    explanation = (
        "A row of a map is a true class, a column what its queries were taken for, in percent of the row. A query can "
        "only be taken for a class of its own episode. Recall is the share of a class's queries that were recognized."
    )
    bodies = [
        part(entry.name, _confusions(entry.results), of=len(evaluations))
        for entry in evaluations
        if entry.results.confusion
    ]
    return Section("classes", "Class by class", paragraph(explanation) + "".join(bodies) if any(bodies) else "")


def calibration_section(evaluations: tuple[Evaluation, ...]) -> Section:
    """Reliability diagrams at the largest shot, and the error of every method on every target."""
    explanation = (
        "Of the answers a method is 70 % sure of, 70 % should be right: points below the dotted line are answers it is "
        "too sure of, points above it those it doubts too much. ECE, the expected calibration error, is the mean gap."
    )
    bodies = [
        part(entry.name, _calibrations(entry.results), of=len(evaluations))
        for entry in evaluations
        if entry.results.calibration
    ]
    return Section("calibration", "Calibration", paragraph(explanation) + "".join(bodies) if any(bodies) else "")


def _confusions(results: Results) -> str:
    parts = []
    for target in results.targets:
        rows = [row for row in results.confusion if row.target == target]
        if not rows:
            continue
        shot = max(row.shot for row in rows)
        at_shot = {row.method: row for row in rows if row.shot == shot}
        shown = at_shot[best_method(results, list(at_shot), target, shot)]
        drawings = figures(_confusion(shown), _recalls(list(at_shot.values()), shown))
        parts.append(element("h3", text(f"{target}, {shot}-shot")) + drawings)
    return "".join(parts)


def best_method(results: Results, methods: list[str], target: str, shot: int) -> str:
    """The most accurate of some methods on a target; frozen only where it is alone."""
    others = [method for method in methods if method != FROZEN] or methods

    def accuracy(method: str) -> float:
        row = results.row(method, target, shot)
        return -1.0 if row is None else row.accuracy

    return max(others, key=accuracy)


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
    chart = heat_map(
        shares,
        row.classes,
        row.classes,
        title=f"Confusions of {row.method} on {row.target}",
        description=spoken,
        row_axis="true",
        column_axis="taken for, in the order of the rows" if many else "taken for",
        high=top,
        digits=0,
    )
    return figure(chart, f"{row.method}: confusions in %, darkest {number(top, 0)} %. {spoken}", wide=many)


def _recalls(rows: list[ConfusionRow], shown: ConfusionRow) -> str:
    series = [row for row in rows if row.classes == shown.classes and row.method in (FROZEN, shown.method)]
    places = sorted(range(len(shown.classes)), key=lambda place: shown.recall[place])
    cut = len(places) > MOST_CLASSES
    lines = [(shown.classes[p], [100 * row.recall[p] for row in series]) for p in places[:MOST_CLASSES]]
    spoken = ", ".join(f"{name} {number(values[-1], 0)} %" for name, values in lines)
    chart = before_after_chart(
        lines, title=f"Recall of the classes of {shown.target}", description=spoken, axis="recall, %", high=100.0
    )
    caption = "Recall by class, lowest first" + (f" (the lowest {MOST_CLASSES} of {len(places)})" if cut else "")
    return figure(chart, caption, legend=point_legend([row.method for row in series]))


def _calibrations(results: Results) -> str:
    shot = max(row.shot for row in results.calibration)
    parts = []
    for target in results.targets:
        rows = [row for row in results.calibration if (row.target, row.shot) == (target, shot)]
        drawings = [
            _reliability(row, results.methods.index(row.method)) for row in rows if row.method in results.methods
        ]
        if drawings:
            parts.append(element("h3", text(f"{target}, {shot}-shot")) + figures(*drawings))
    return table_with_sources(calibration_table(results)) + "".join(parts)


def _reliability(row: CalibrationRow, series: int) -> str:
    bins = [(each.confidence, each.accuracy, each.share) for each in row.bins]
    chart = reliability_chart(
        bins,
        title=f"Reliability of {row.method} on {row.target}",
        description=f"Expected calibration error {number(100 * row.ece, 1)} %.",
        ece=row.ece,
        series=series,
    )
    return figure(chart, f"{row.method}, temperature {row.temperature:g}")


def calibration_table(results: Results) -> Table:
    """Expected calibration errors in percent, the lowest of each target and shot in bold."""
    places = list(dict.fromkeys((row.target, row.shot) for row in results.calibration))
    errors = {(row.method, row.target, row.shot): 100 * row.ece for row in results.calibration}
    methods = [method for method in results.methods if any(key[0] == method for key in errors)]
    rows = []
    for target, shot in places:
        known = [errors[method, target, shot] for method in methods if (method, target, shot) in errors]
        cells = []
        for method in methods:
            error = errors.get((method, target, shot))
            cells.append(Cell(number(error, 1), bold=len(known) > 1 and error == min(known)))
        rows.append((Cell(target), Cell(str(shot)), *cells))
    return Table(
        title="Expected calibration error in % (lower is better)",
        columns=("target", "shot", *methods),
        rows=tuple(rows),
        left=1,
    )
