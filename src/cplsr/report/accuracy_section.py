"""Accuracies: paired differences, tables with intervals, bars, and the paper's table where both measured the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cplsr.evaluation.published import (
    MINI,
    TIERED,
    benchmark_targets,
    comparable_methods,
    obstacles,
    published_table,
    remarks_on_methods,
)
from cplsr.records.estimate import Estimate
from cplsr.records.results import Results
from cplsr.report.accuracy_tables import accuracy_table, paired_table
from cplsr.report.bars import bar_chart
from cplsr.report.differences import difference_chart
from cplsr.report.figures import figures
from cplsr.report.paper_table import paper_table
from cplsr.report.sections import details, paragraph, table_with_sources
from cplsr.report.sources import Training


def differences(results: Results) -> str:
    """What every method gained or lost on the same episodes."""
    if not results.paired:
        return ""
    rows: dict[str, dict[str, Estimate]] = {}
    for row in results.paired:
        own = rows.setdefault(f"{row.method} minus {row.against}", {})
        own[f"{row.target}, {row.shot}-shot"] = row.estimate
    charts = [difference_chart(group, title=title) for title, group in rows.items()]
    return figures(charts) + details("All differences as a table", table_with_sources(paired_table(results)))


def accuracies(results: Results) -> str:
    """What every method reached on every target."""
    tables = [table_with_sources(accuracy_table(results, shot)) for shot in results.shots]
    bars = figures(_bars(results, shot) for shot in results.shots)
    return "".join(tables) + details("The same as bars from 0 to 100", bars)


def _bars(results: Results, shot: int) -> str:
    """A bar for every method on every target."""
    groups: dict[str, dict[str, Estimate]] = {}
    for target in results.targets:
        rows = [results.row(method, target, shot) for method in results.methods]
        if bars := {row.method: row.estimate for row in rows if row is not None}:
            groups[target] = bars
    way = next(row.way for row in results.rows if row.shot == shot)
    return bar_chart(
        groups,
        results.methods,
        title=f"Accuracy at {shot} shot",
        axis="accuracy, % (dotted: guessing)",
        caption=f"{shot}-shot",
        reference=100 / way,
    )


def beside_paper(results: Results, base: str) -> str:
    """The paper's table with ours under its figures, or why these do not belong together."""
    if not benchmark_targets(results):
        return ""
    if reasons := obstacles(results):
        return paragraph(f"The paper's figures are not laid beside these: {'; '.join(reasons)}.")
    comparable = comparable_methods(results)
    ours = replace(results, rows=tuple(row for row in results.rows if row.method in comparable))
    paper = published_table(base)
    paper = replace(paper, rows=tuple(row for row in paper.rows if row.shot in ours.shots))
    if not paper.rows:
        return ""
    left_out = "".join(paragraph(f"Left out: {remark}.") for remark in remarks_on_methods(results))
    return left_out + table_with_sources(paper_table(paper, ours))


def base_set(trainings: Sequence[Training]) -> str:
    """The paper's table of the base set trained on: tiered-ImageNet where every run says so, else mini-ImageNet."""
    names = [entry.about.data.get("base", {}).get("name", "") for entry in trainings]
    return TIERED if names and all("tiered" in name.lower() for name in names) else MINI
