"""Accuracies: paired differences, tables with intervals, bars, and the paper's figures where both measured the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cplsr.evaluation.published import (
    MINI,
    TIERED,
    PublishedCell,
    benchmark_targets,
    comparable_methods,
    paper_beside,
    published_for,
    remarks_on_data,
)
from cplsr.records.results import Results
from cplsr.report.accuracy_tables import accuracy_table, paired_table
from cplsr.report.bars import Bar, bar_chart
from cplsr.report.differences import difference_chart
from cplsr.report.estimates import Estimate
from cplsr.report.figures import figures
from cplsr.report.sections import callout, details, paragraph, table_with_sources
from cplsr.report.sources import Training
from cplsr.report.tables import Table, table

BENCHMARK = 4
"""Targets of the paper: with all of them measured, averages can be compared too."""
PublishedFigures = dict[str, dict[tuple[str, int], PublishedCell]]
"""By system of the paper, then by target and shot."""


def differences(results: Results) -> str:
    """What every method gained or lost on the same episodes."""
    if not results.paired:
        return ""
    methods = dict.fromkeys(row.method for row in results.paired)
    charts = [difference_chart([row for row in results.paired if row.method == method]) for method in methods]
    return figures(charts) + details("All differences as a table", table_with_sources(paired_table(results)))


def accuracies(results: Results) -> str:
    """What every method reached on every target."""
    tables = [table_with_sources(accuracy_table(results, shot)) for shot in results.shots]
    bars = figures(_bars(results, shot) for shot in results.shots)
    return "".join(tables) + details("The same as bars from 0 to 100", bars)


def _bars(results: Results, shot: int, paper: PublishedFigures | None = None) -> str:
    """A bar for every method on every target, beside the paper's where some are given."""
    groups: dict[str, list[Bar]] = {}
    for target in results.targets if paper is None else benchmark_targets(results):
        rows = [(series, results.row(method, target, shot)) for series, method in enumerate(results.methods)]
        bars = [Bar(row.method, row.accuracy, row.ci95, series) for series, row in rows if row is not None]
        for series, (system, known) in enumerate((paper or {}).items(), start=len(results.methods)):
            if (cell := known.get((target, shot))) is not None:
                bars.append(Bar(system, cell.accuracy, cell.ci95, series))
        if bars:
            groups[target] = bars
    way = next(row.way for row in results.rows if row.shot == shot)
    return bar_chart(
        groups,
        [*results.methods, *(paper or {})],
        title=f"Accuracy at {shot} shot" if paper is None else f"Ours and the paper's, {shot}-shot",
        axis="accuracy, % (dotted: guessing)",
        caption=f"{shot}-shot",
        reference=100 / way,
    )


def beside_paper(results: Results, base: str) -> str:
    """Ours against the paper's, with everything that speaks against the comparison."""
    paper = paper_beside(results, base=base)
    remarks = callout("Before you compare", paper.remarks, "warning")
    cells = {f"{system} (paper)": dict(known) for system, known in paper.cells.items() if known}
    if not cells:
        return remarks
    comparable = comparable_methods(results)
    results = replace(results, rows=tuple(row for row in results.rows if row.method in comparable))
    setting = paragraph(f"The paper's systems were trained on {base} and measured in 5-way episodes with ViT-S/16.")
    known_shots = {shot for known in cells.values() for _, shot in known}
    charts = [_bars(results, shot, cells) for shot in results.shots if shot in known_shots]
    charts += [_averages(results, base, shot) for shot in results.shots]
    return remarks + setting + figures(charts) + table_with_sources(beside_table(results, cells))


def base_set(trainings: Sequence[Training]) -> str:
    """The paper's name of the base set trained on: tiered-ImageNet where every run says so, else mini-ImageNet."""
    names = [entry.about.data.get("base", {}).get("name", "") for entry in trainings]
    return TIERED if names and all("tiered" in name.lower() for name in names) else MINI


def _averages(results: Results, base: str, shot: int) -> str:
    """All systems of the paper and ours by their average, where all four targets were measured."""
    targets = benchmark_targets(results)
    if len(set(targets.values())) < BENCHMARK or len(targets) < len(results.targets):
        return ""
    published = [published_for(title, shot, base=base) for title in targets.values()]
    ours = [Bar(row.method, row.accuracy, None, 1) for row in results.averages() if row.shot == shot]
    if not ours:
        return ""
    bars = [
        Bar(f"{system} (paper)", sum(cells[system].accuracy for cells in published) / len(published), None, 0)
        for system in published[0]
    ]
    return bar_chart(
        {bar.name: [bar] for bar in sorted(bars + ours, key=lambda bar: bar.value)},
        ["the paper", "this evaluation"],
        title=f"Averages of the four targets, {shot}-shot",
        axis="accuracy, %",
        caption=f"Average of the four targets, {shot}-shot"
        + (" (ours not comparable, see above)" if remarks_on_data(results) else ""),
    )


def beside_table(results: Results, cells: PublishedFigures) -> Table:
    """Methods and the paper's systems down, targets and shots across."""
    columns = list(dict.fromkeys(column for known in cells.values() for column in known))
    measured = {(row.method, row.target, row.shot): Estimate(row.accuracy, row.ci95) for row in results.rows}
    for system, known in cells.items():
        measured |= {(system, *column): Estimate(cell.accuracy, cell.ci95) for column, cell in known.items()}
    rows = [
        (name, *(measured[name, *column].written() if (name, *column) in measured else "–" for column in columns))
        for name in (*results.methods, *cells)
    ]
    heads = ("method", *(f"{target}\n{shot}-shot" for target, shot in columns))
    return table("Accuracy in %, ours and the paper's", heads, rows)
