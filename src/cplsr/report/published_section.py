"""Our figures beside the paper's, where both measured the same thing."""

from __future__ import annotations

from collections.abc import Sequence

from cplsr.evaluation.published import (
    MINI,
    TIERED,
    PublishedCell,
    benchmark_targets,
    paper_beside,
    published_for,
    remarks_on_data,
)
from cplsr.records.results import Results
from cplsr.report.bars import Bar, BarGroup, bar_chart, bar_legend
from cplsr.report.figures import figure, figures
from cplsr.report.markup import number
from cplsr.report.material import Evaluation, Training
from cplsr.report.sections import Section, callout, paragraph, part, table_with_sources
from cplsr.report.tables import Cell, Table

BENCHMARK = 4
"""Targets of the paper: with all of them measured, averages can be compared too."""


def published_section(evaluations: tuple[Evaluation, ...], trainings: tuple[Training, ...]) -> Section:
    """Ours against the paper's, with everything that speaks against the comparison."""
    base = base_set(trainings)
    bodies = [part(entry.name, _beside(entry.results, base), of=len(evaluations)) for entry in evaluations]
    return Section("paper", "Against the paper", "".join(bodies))


def base_set(trainings: tuple[Training, ...]) -> str:
    """The paper's name of the base set trained on: tiered-ImageNet where every run says so, else mini-ImageNet."""
    names = [entry.about.data.get("base", {}).get("name", "") for entry in trainings]
    return TIERED if names and all("tiered" in name.lower() for name in names) else MINI


def _beside(results: Results, base: str) -> str:
    paper = paper_beside(results, base=base)
    remarks = callout("Before you compare", paper.remarks, "warning")
    cells = {name: dict(found) for name, found in paper.cells.items() if found}
    if not cells:
        return remarks
    words = paragraph(f"The paper's systems were trained on {base} and measured in 5-way episodes with ViT-S/16.")
    charts = [
        _bars(results, cells, shot) for shot in results.shots if any(s == shot for c in cells.values() for _, s in c)
    ]
    charts += [_averages(results, base, shot) for shot in results.shots]
    return remarks + words + figures(*filter(None, charts)) + table_with_sources(beside_table(results, cells))


def _bars(results: Results, cells: dict[str, dict[tuple[str, int], PublishedCell]], shot: int) -> str:
    names = [*results.methods, *(_paper(system) for system in cells)]
    groups = []
    for target in benchmark_targets(results):
        rows = [(results.methods.index(m), results.row(m, target, shot)) for m in results.methods]
        bars = [Bar(row.method, row.accuracy, row.ci95, series) for series, row in rows if row is not None]
        for place, (system, found) in enumerate(cells.items()):
            if (cell := found.get((target, shot))) is not None:
                bars.append(Bar(_paper(system), cell.accuracy, cell.ci95, len(results.methods) + place))
        groups.append(BarGroup(target, tuple(bars)))
    chart = bar_chart(
        groups,
        title=f"Ours and the paper's, {shot}-shot",
        description=_spoken(groups),
        axis="accuracy, %",
        high=100.0,
    )
    return figure(chart, f"{shot}-shot", legend=bar_legend([(name, series) for series, name in enumerate(names)]))


def _averages(results: Results, base: str, shot: int) -> str:
    """All systems of the paper and ours by their average, where all four targets were measured."""
    targets = benchmark_targets(results)
    if len(set(targets.values())) < BENCHMARK or len(targets) < len(results.targets):
        return ""
    published = [published_for(title, shot, base=base) for title in targets.values()]
    entries = [
        (_paper(system), sum(cells[system].accuracy for cells in published) / len(published), 0)
        for system in published[0]
    ]
    entries += [(row.method, row.accuracy, 1) for row in results.averages() if row.shot == shot]
    if len(entries) == len(published[0]):
        return ""
    ranked = sorted(entries, key=lambda entry: entry[1])
    groups = [BarGroup(name, (Bar(name, mean, None, series),)) for name, mean, series in ranked]
    chart = bar_chart(
        groups,
        title=f"Averages of the four targets, {shot}-shot",
        description=_spoken(groups),
        axis="accuracy, %",
        high=100.0,
    )
    caption = f"Average of the four targets, {shot}-shot"
    if remarks_on_data(results):
        caption += " (ours not comparable, see above)"
    return figure(chart, caption, legend=bar_legend([("the paper", 0), ("this evaluation", 1)]))


def beside_table(results: Results, cells: dict[str, dict[tuple[str, int], PublishedCell]]) -> Table:
    """Methods and the paper's systems down, targets and shots across."""
    places = list(dict.fromkeys(place for found in cells.values() for place in found))
    rows = []
    for method in results.methods:
        found = [results.row(method, target, shot) for target, shot in places]
        rows.append((Cell(method), *(Cell("–" if row is None else _figure(row.accuracy, row.ci95)) for row in found)))
    for system, known in cells.items():
        figures_ = [known.get(place) for place in places]
        rows.append(
            (Cell(_paper(system)), *(Cell("–" if c is None else _figure(c.accuracy, c.ci95)) for c in figures_))
        )
    columns = ("method", *(f"{target}\n{shot}-shot" for target, shot in places))
    return Table(title="Accuracy in %, ours and the paper's", columns=columns, rows=tuple(rows))


def _figure(accuracy: float, half_width: float | None) -> str:
    return number(accuracy) + ("" if half_width is None else f" ±{number(half_width)}")


def _paper(system: str) -> str:
    return f"{system} (paper)"


def _spoken(groups: Sequence[BarGroup]) -> str:
    return "; ".join(f"{g.name}: " + ", ".join(f"{b.name} {number(b.value, 1)}" for b in g.bars) for g in groups)
