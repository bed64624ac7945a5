"""The opening of a page in plain words: what was compared, on how much, what was gained, and whether that is chance."""

from __future__ import annotations

from collections.abc import Sequence

from cplsr.errors import counted
from cplsr.evaluation.published import benchmark_targets, remarks_on_data
from cplsr.records.ablation import AblationRun
from cplsr.records.analysis import Analysis
from cplsr.records.estimate import combined
from cplsr.records.results import FROZEN, PairedRow, Results
from cplsr.report.markup import element, listed, number, text
from cplsr.report.sections import Section, callout, paragraph, parts
from cplsr.report.sources import Ablation, Material, Training
from cplsr.report.tables import ARROWS


def summary_section(material: Material) -> Section:
    """What a reader in a hurry takes away."""
    said = [
        callout("Read this first", remarks(material), "warning"),
        parts(material.of(Results), lambda own: tiles(own) + "".join(map(paragraph, evaluation_words(own)))),
        *(paragraph(training_words(name, training)) for name, training in material.of(Training)),
        *(paragraph(ablation_words(name, ablation.runs)) for name, ablation in material.of(Ablation)),
    ]
    for name, analysis in material.of(Analysis):
        said.append(paragraph(analysis_words(name, analysis)) + callout("Notes", analysis.notes, "note"))
    return Section("summary", "In short", "".join(said))


def remarks(material: Material) -> list[str]:
    """Flags of the data and of the runs, each once."""
    evaluations = [results for _, results in material.of(Results)]
    flags = [flag for results in evaluations for flag in results.flags]
    flags += [flag for results in evaluations if benchmark_targets(results) for flag in remarks_on_data(results)]
    for name, training in material.of(Training):
        if not training.about.finished:
            flags.append(f"{name}: the training is not finished; figures are those so far.")
        for domain in training.about.data.values():
            flags += [f"{domain.get('name', 'data')}: {flag}" for flag in domain.get("flags", ())]
    return list(dict.fromkeys(flags))


def evaluation_words(results: Results) -> list[str]:
    """What was compared, then for each method what was gained."""
    first = results.rows[0]
    others = [method for method in results.methods if method != results.reference]
    backbone = f" {results.settings['backbone']['source']}" if "backbone" in results.settings else ""
    frozen = f"the frozen backbone{backbone}"
    if results.reference != FROZEN:
        frozen += f" ({results.reference})"
    compared = f"{listed(others)} {'was' if len(others) == 1 else 'were'} compared with {frozen}"
    if not others:
        compared = f"T{frozen[1:]} was measured"
    same = "; all methods saw the same episodes" if others else ""
    opening = (
        f"{compared} on {counted(len(results.targets), 'target domain')} ({listed(results.targets)}), "
        f"in {counted(first.episodes, 'episode')} of {first.way} classes for each target and shot "
        f"({listed([str(shot) for shot in results.shots])} labeled images per class){same}."
    )
    return [opening, *(gain_words(results, method) for method in others if _pairs(results, method))]


def gain_words(results: Results, method: str) -> str:
    """How much a method gained on average and in how many comparisons, and the largest change either way."""
    pairs = _pairs(results, method)
    changes, verb = [], ""
    for shot in results.shots:
        if rows := [row for row in pairs if row.shot == shot]:
            change = combined([row.estimate for row in rows])
            said, verb = verb, "gained" if change.mean >= 0 else "lost"
            figure = change._replace(mean=abs(change.mean)).written(" ± ")
            changes.append(f"{'' if said == verb else verb + ' '}{figure} points at {counted(shot, 'shot')}")
    better = [row for row in pairs if row.estimate.mark == "better"]
    worse = [row for row in pairs if row.estimate.mark == "worse"]
    within = len(pairs) - len(better) - len(worse)
    over = " averaged over the targets" if len(results.targets) > 1 else ""
    text_ = (
        f"{method} {listed(changes)}{over}. Of {counted(len(pairs), 'comparison')} with {pairs[0].against}, "
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


def tiles(results: Results) -> str:
    """The averages of the first two methods as large figures: frozen, the method, and the difference."""
    others = [method for method in results.methods if method != results.reference]
    cards = "".join(_tile(results, method, shot) for method in others[:2] for shot in results.shots)
    return element("div", cards, class_="tiles") if cards else ""


def _tile(results: Results, method: str, shot: int) -> str:
    rows = results.averages() if len(results.targets) > 1 else results.rows
    averages = {row.method: row.accuracy for row in rows if row.shot == shot}
    pairs = [row for row in _pairs(results, method) if row.shot == shot]
    if not pairs or not {results.reference, method} <= averages.keys():
        return ""
    change = combined([row.estimate for row in pairs])
    where = "average of all targets" if len(results.targets) > 1 else results.targets[0]
    parts = {
        "name": text(f"{method}, {shot}-shot"),
        "large": text(number(averages[method], 1)) + element("small", " %"),
        f"change {change.mark or 'within'}": text(
            f"{ARROWS[change.mark]} {change.written(' ± ', sign=True)} points".strip()
        ),
        "where": text(f"{results.reference} {number(averages[results.reference], 1)} %, {where}"),
    }
    return element("div", *(element("span", content, class_=kind) for kind, content in parts.items()), class_="tile")


def training_words(name: str, training: Training) -> str:
    """How a training went."""
    about = training.about
    base = about.data.get("base", {})
    what = f"{name}: training a {about.adapter['kind']} adapter"
    if "classes" in base and "images" in base:
        what += f" on {counted(base['classes'], 'class')} ({counted(base['images'], 'image')})"
    if training.steps:
        what += f" for {counted(training.steps[-1][0], 'base episode')}"
    if about.seconds is not None:
        what += f", {duration(about.seconds)}"
    if not training.validations:
        return f"{what}."
    (_, start, _), (_, last, half) = training.validations[0], training.validations[-1]
    best = max(training.validations, key=lambda row: (row[1], row[0]))
    interval = "" if half is None else f" (± {number(half)} each; the two are not compared episode by episode here)"
    return (
        f"{what}. Accuracy on the validation classes went from {number(start)} % to {number(last)} %{interval}, "
        f"{number(best[1])} % at its best, after {counted(best[0], 'episode')}."
    )


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 120:
        return f"{seconds:.0f}\u00a0s"
    return f"{seconds / 60:.0f}\u00a0min" if seconds < 7200 else f"{seconds / 3600:.1f}\u00a0h"


def ablation_words(name: str, runs: Sequence[AblationRun]) -> str:
    """How large an ablation is."""
    rows, seeds = len({run.row for run in runs}), len({run.seed for run in runs})
    return (
        f"{name}: an ablation of {counted(rows, 'row')} in {counted(len(runs), 'run')}, with {counted(seeds, 'seed')}."
    )


def analysis_words(name: str, analysis: Analysis) -> str:
    """What an analysis looked at, and where the adapter changed most."""
    domains = list(analysis.domains)
    what = f"{name}: the embeddings of {counted(len(domains), 'domain')} ({listed(domains)}) were analyzed"
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
