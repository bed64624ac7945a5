"""Accuracies: tables with intervals, bars, paired differences."""

from __future__ import annotations

from cplsr.records.results import Results
from cplsr.report.accuracy_tables import accuracy_table, paired_table
from cplsr.report.bars import Bar, bar_chart
from cplsr.report.differences import difference_chart
from cplsr.report.figures import figures
from cplsr.report.markup import element
from cplsr.report.sections import table_with_sources


def accuracies(results: Results) -> str:
    """What every method reached on every target."""
    tables = [table_with_sources(accuracy_table(results, shot)) for shot in results.shots]
    return "".join(tables) + figures(_bars(results, shot) for shot in results.shots)


def differences(results: Results) -> str:
    """What every method gained or lost on the same episodes."""
    if not results.paired:
        return ""
    methods = dict.fromkeys(row.method for row in results.paired)
    charts = [difference_chart([row for row in results.paired if row.method == method]) for method in methods]
    return element("div", figures(charts), table_with_sources(paired_table(results)))


def method_bars(results: Results, target: str, shot: int) -> list[Bar]:
    """A bar for every method that was measured on a target at a shot."""
    rows = [(series, results.row(method, target, shot)) for series, method in enumerate(results.methods)]
    return [Bar(row.method, row.accuracy, row.ci95, series) for series, row in rows if row is not None]


def _bars(results: Results, shot: int) -> str:
    way = next(row.way for row in results.rows if row.shot == shot)
    return bar_chart(
        {target: bars for target in results.targets if (bars := method_bars(results, target, shot))},
        results.methods,
        title=f"Accuracy at {shot} shot",
        axis="accuracy, % (dotted: guessing)",
        caption=f"{shot}-shot",
        reference=100 / way,
    )
