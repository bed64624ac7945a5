"""The opening of a page in plain words: what was compared, on how much, what was gained, and whether that is chance."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cplsr.evaluation.published import benchmark_targets, remarks_on_data
from cplsr.records.results import FROZEN, PairedRow, Results
from cplsr.report.markup import element, listed, number, plural, text
from cplsr.report.material import Ablation, Analyzed, Material, Training
from cplsr.report.sections import Section, callout, paragraph, part


def summary_section(material: Material) -> Section:
    """What a reader in a hurry takes away."""
    single = len(material.evaluations) == 1
    parts = [callout("Read this first", remarks(material), "warning")]
    for evaluation in material.evaluations:
        body = "".join(paragraph(sentence) for sentence in evaluation_words(evaluation.results))
        parts.append(part(evaluation.name, tiles(evaluation.results) + body, of=1 if single else 2))
    for training in material.trainings:
        parts.append(paragraph(training_words(training)))
    for ablation in material.ablations:
        parts.append(paragraph(ablation_words(ablation)))
    for analyzed in material.analyses:
        parts.append(paragraph(analysis_words(analyzed)) + callout("Notes", analyzed.analysis.notes, "note"))
    return Section("summary", "In short", "".join(parts))


def remarks(material: Material) -> list[str]:
    """Flags of the data and of the runs, each once."""
    flags = [flag for evaluation in material.evaluations for flag in evaluation.results.flags]
    for evaluation in material.evaluations:
        if benchmark_targets(evaluation.results):
            flags += remarks_on_data(evaluation.results)
    for training in material.trainings:
        if not training.about.finished:
            flags.append(f"{training.name}: the training is not finished; figures are those so far.")
        for domain in training.about.data.values():
            flags += [f"{domain.get('name', 'data')}: {flag}" for flag in domain.get("flags", ())]
    return list(dict.fromkeys(flags))


def evaluation_words(results: Results) -> list[str]:
    """What was compared, then for each method what was gained."""
    first = results.rows[0]
    others = [method for method in results.methods if method != FROZEN]
    backbone = f" {results.settings['backbone']['source']}" if "backbone" in results.settings else ""
    compared = f"{listed(others)} {'was' if len(others) == 1 else 'were'} compared with the frozen backbone{backbone}"
    if not others:
        compared = f"The frozen backbone{backbone} was measured"
    same = "; all methods saw the same episodes" if others else ""
    opening = (
        f"{compared} on {plural(len(results.targets), 'target domain')} ({listed(results.targets)}), "
        f"in {plural(first.episodes, 'episode')} of {first.way} classes for each target and shot "
        f"({listed([str(shot) for shot in results.shots])} labeled images per class){same}."
    )
    return [opening, *(gain_words(results, method) for method in others if _pairs(results, method))]


def gain_words(results: Results, method: str) -> str:
    """How much a method gained on average and in how many comparisons, and the largest change either way."""
    pairs = _pairs(results, method)
    changes, verb = [], ""
    for shot in results.shots:
        if rows := [row for row in pairs if row.shot == shot]:
            mean, half = average_difference(rows)
            said, verb = verb, "gained" if mean >= 0 else "lost"
            figure = number(abs(mean)) + ("" if half is None else f" ± {number(half)}")
            changes.append(f"{'' if said == verb else verb + ' '}{figure} points at {plural(shot, 'shot')}")
    better = [row for row in pairs if row.significant and row.difference > 0]
    worse = [row for row in pairs if row.significant and row.difference < 0]
    within = len(pairs) - len(better) - len(worse)
    over = " averaged over the targets" if len(results.targets) > 1 else ""
    text_ = (
        f"{method} {listed(changes)}{over}. Of {plural(len(pairs), 'comparison')} with {pairs[0].against}, "
        f"{len(better)} came out significantly better, {len(worse)} significantly worse, {within} within chance."
    )
    if better:
        top = max(better, key=lambda row: row.difference)
        text_ += f" The largest gain is {number(top.difference, sign=True)} points ({top.target}, {top.shot}-shot)"
        text_ += "." if not worse else ""
    if worse:
        low = min(worse, key=lambda row: row.difference)
        joint = ", the" if better else " The"
        text_ += f"{joint} largest loss {number(low.difference, sign=True)} points ({low.target}, {low.shot}-shot)."
    return text_


def average_difference(rows: Sequence[PairedRow]) -> tuple[float, float | None]:
    """Mean of differences on several targets at one shot, and its 95 % half-width √(Σ ci²) / n.

    The targets' episodes are drawn apart, so their errors are independent. The interval is about the episodes, not
    about the choice of targets.
    """
    mean = sum(row.difference for row in rows) / len(rows)
    halves = [row.ci95 for row in rows]
    if any(half is None for half in halves):
        return mean, None
    return mean, math.sqrt(sum(half**2 for half in halves if half is not None)) / len(rows)


def tiles(results: Results) -> str:
    """The averages as large figures: frozen, the method, and the difference."""
    averages = {(row.method, row.shot): row.accuracy for row in results.averages()}
    if len(results.targets) == 1:
        averages = {(row.method, row.shot): row.accuracy for row in results.rows}
    others = [method for method in results.methods if method != FROZEN]
    cards = []
    for method in others[:2]:
        for shot in results.shots:
            rows = [row for row in _pairs(results, method) if row.shot == shot]
            if not rows or (FROZEN, shot) not in averages or (method, shot) not in averages:
                continue
            change, half = average_difference(rows)
            kind = "within" if half is None or abs(change) <= half else "better" if change > 0 else "worse"
            arrow = {"better": "▲ ", "worse": "▼ ", "within": ""}[kind]
            interval = "" if half is None else f" ± {number(half)}"
            where = "average of all targets" if len(results.targets) > 1 else results.targets[0]
            cards.append(
                element(
                    "div",
                    element("span", text(f"{method}, {shot}-shot"), class_="name"),
                    element("span", text(number(averages[method, shot], 1)), element("small", " %"), class_="large"),
                    element(
                        "span", text(f"{arrow}{number(change, sign=True)}{interval} points"), class_=f"change {kind}"
                    ),
                    element("span", text(f"frozen {number(averages[FROZEN, shot], 1)} %, {where}"), class_="where"),
                    class_="tile",
                )
            )
    return element("div", *cards, class_="tiles") if cards else ""


def training_words(training: Training) -> str:
    """How a training went."""
    about = training.about
    base = about.data.get("base", {})
    what = f"{training.name}: training a {about.adapter['kind']} adapter"
    if "classes" in base and "images" in base:
        what += f" on {plural(base['classes'], 'class', 'classes')} ({plural(base['images'], 'image')})"
    if training.steps:
        what += f" for {plural(training.steps[-1][0], 'base episode')}"
    if about.seconds is not None:
        what += f", {duration(about.seconds)}"
    if not training.validations:
        return f"{what}."
    (_, start, _), (_, last, half) = training.validations[0], training.validations[-1]
    best = max(training.validations, key=lambda row: (row[1], row[0]))
    interval = "" if half is None else f" (± {number(half)} each; the two are not compared episode by episode here)"
    return (
        f"{what}. Accuracy on the validation classes went from {number(start)} % to {number(last)} %{interval}, "
        f"{number(best[1])} % at its best, after {plural(best[0], 'episode')}."
    )


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 120:
        return f"{seconds:.0f}\u00a0s"
    return f"{seconds / 60:.0f}\u00a0min" if seconds < 7200 else f"{seconds / 3600:.1f}\u00a0h"


def ablation_words(ablation: Ablation) -> str:
    """How large an ablation is."""
    rows = list(dict.fromkeys(run.row for run in ablation.runs))
    seeds = len({run.seed for run in ablation.runs})
    return (
        f"{ablation.name}: an ablation of {plural(len(rows), 'row')} in {plural(len(ablation.runs), 'run')}, "
        f"with {plural(seeds, 'seed')}."
    )


def analysis_words(analyzed: Analyzed) -> str:
    """What an analysis looked at, and where the adapter changed most."""
    analysis = analyzed.analysis
    names = list(analysis.domains)
    what = f"{analyzed.name}: the embeddings of {plural(len(names), 'domain')} ({listed(names)}) were analyzed"
    what += " before and after adapting." if analysis.adapter else " with the frozen backbone."
    if analysis.heads:
        head = max(analysis.heads, key=lambda entry: entry.distance)
        what += (
            f" The head that changed most is head {head.head} of layer {head.layer}: "
            f"C is {number(head.distance)} away from the identity."
        )
    return what


def _pairs(results: Results, method: str) -> list[PairedRow]:
    return [row for row in results.paired if row.method == method]
