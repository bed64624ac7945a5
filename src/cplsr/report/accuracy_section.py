"""Accuracies: tables with intervals, bars, paired differences."""

from __future__ import annotations

from cplsr.records.results import Results
from cplsr.report.accuracy_tables import accuracy_table, paired_table
from cplsr.report.bars import Bar, BarGroup, bar_chart, bar_legend
from cplsr.report.differences import Difference, difference_chart, difference_legend
from cplsr.report.figures import figure, figures
from cplsr.report.markup import element, number
from cplsr.report.material import Evaluation
from cplsr.report.sections import Section, part, table_with_sources


def accuracy_section(evaluations: tuple[Evaluation, ...]) -> Section:
    """What every method reached on every target."""
    bodies = [part(entry.name, _accuracies(entry.results), of=len(evaluations)) for entry in evaluations]
    return Section("accuracy", "Accuracy", "".join(bodies))


def differences_section(evaluations: tuple[Evaluation, ...]) -> Section:
    """What every method gained or lost on the same episodes."""
    bodies = [
        part(entry.name, _differences(entry.results), of=len(evaluations))
        for entry in evaluations
        if entry.results.paired
    ]
    return Section("differences", "Differences, episode by episode", "".join(bodies))


def _accuracies(results: Results) -> str:
    tables = [table_with_sources(accuracy_table(results, shot)) for shot in results.shots]
    return "".join(tables) + figures(*(_bars(results, shot) for shot in results.shots))


def _bars(results: Results, shot: int) -> str:
    groups = []
    for target in results.targets:
        rows = [(series, results.row(method, target, shot)) for series, method in enumerate(results.methods)]
        bars = tuple(Bar(row.method, row.accuracy, row.ci95, series) for series, row in rows if row is not None)
        if bars:
            groups.append(BarGroup(target, bars))
    way = next(row.way for row in results.rows if row.shot == shot)
    spoken = "; ".join(f"{g.name}: " + ", ".join(f"{b.name} {number(b.value, 1)}" for b in g.bars) for g in groups)
    chart = bar_chart(
        groups,
        title=f"Accuracy at {shot} shot",
        description=spoken,
        axis="accuracy, % (dotted: guessing)",
        high=100.0,
        reference=100 / way,
    )
    legend = bar_legend([(method, series) for series, method in enumerate(results.methods)])
    return figure(chart, f"{shot}-shot", legend=legend)


def _differences(results: Results) -> str:
    charts = []
    methods = list(dict.fromkeys(row.method for row in results.paired))
    for method in methods:
        rows = [row for row in results.paired if row.method == method]
        entries = [Difference(f"{row.target}, {row.shot}-shot", row.difference, row.ci95) for row in rows]
        spoken = "; ".join(f"{entry.name} {number(entry.value, sign=True)}, {entry.verdict}" for entry in entries)
        chart = difference_chart(
            entries, title=f"{method} minus {rows[0].against}", description=spoken, axis="difference, percentage points"
        )
        charts.append(figure(chart, f"{method} minus {rows[0].against}", legend=difference_legend()))
    return element("div", figures(*charts), table_with_sources(paired_table(results)))
