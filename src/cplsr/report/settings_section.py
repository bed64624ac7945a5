"""Data and settings: what the figures depend on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cplsr.records.parts import BackboneInfo
from cplsr.records.results import EvaluatedAdapter, EvaluationSettings
from cplsr.records.run import TrainingRun
from cplsr.report.markup import element, number, plural, text
from cplsr.report.material import Evaluation, Material, Training
from cplsr.report.sections import Section, facts, paragraph, table_with_sources
from cplsr.report.summary import duration
from cplsr.report.tables import Cell, Table


def data_section(material: Material) -> Section:
    """How many images of how many classes, and what was left out."""
    rows = [row for entry in material.evaluations for row in _target_rows(entry)]
    rows += [row for entry in material.trainings for row in _base_rows(entry)]
    if not rows:
        return Section("data", "Data", "")
    columns = ("domain", "role", "images", "classes", "images per class", "left out", "fingerprint")
    table = Table(title="", columns=columns, rows=tuple(dict.fromkeys(rows)), left=2)
    return Section("data", "Data", table_with_sources(table))


def settings_section(material: Material, command: str | None) -> Section:
    """Backbones, adapters, options, versions, and the files this page was made from."""
    parts = []
    for evaluation in material.evaluations:
        results = evaluation.results
        parts.append(
            _block(
                f"Evaluation: {evaluation.name}",
                _evaluation_facts(results.settings),
                results.settings,
                results.versions,
            )
        )
    for training in material.trainings:
        about = training.about
        parts.append(_block(f"Training: {training.name}", _training_facts(about), about.to_json(), about.versions))
    for entry in material.analyses:
        analysis = entry.analysis
        rest = {"backbone": analysis.backbone, "adapter": analysis.adapter, "settings": analysis.settings}
        told = [("backbone", _backbone(analysis.backbone)), ("adapter", _words(analysis.adapter or {}))]
        parts.append(_block(f"Analysis: {entry.name}", told, rest, analysis.versions))
    for ablation in material.ablations:
        commands = [(f"{run.row}, {run.shot}-shot, seed {run.seed}", run.command) for run in ablation.runs]
        parts.append(element("h3", text(f"Ablation: {ablation.name}")) + facts(commands))
    files = element(
        "ul",
        *(element("li", element("code", text(name)), text(f" sha256 {digest}…")) for name, digest in material.files),
    )
    made = paragraph("Made from") + files
    if command:
        made += paragraph("by") + element("pre", text(command))
    return Section("settings", "Settings", "".join(parts) + element("h3", "This page") + made)


def _block(title: str, told: list[tuple[str, str]], everything: Mapping[str, Any], versions: Mapping[str, Any]) -> str:
    whole = json.dumps(everything, indent=2, ensure_ascii=False)
    folded = element("details", element("summary", "All settings"), element("pre", text(whole)), class_="copy")
    numbers = [("versions", ", ".join(f"{name} {version}" for name, version in versions.items()))]
    return element("h3", text(title)) + facts([*told, *numbers]) + folded


def _evaluation_facts(settings: EvaluationSettings) -> list[tuple[str, str]]:
    return [
        ("backbone", _backbone(settings.get("backbone"))),
        *((f"adapter {entry.get('name', '')}", _adapter(entry)) for entry in settings.get("adapters", ())),
        ("episodes", _words({key: settings.get(key) for key in ("way", "shots", "query", "episodes", "seed")})),
        ("classifier", _words({key: settings.get(key) for key in ("prototype", "temperature")})),
        ("interval", settings.get("interval", "")),
        ("command", settings.get("command", "")),
    ]


def _training_facts(about: TrainingRun) -> list[tuple[str, str]]:
    names = ("way", "shot", "query", "episodes", "lr", "seed", "sst", "pe", "select", "statistics", "shrinkage")
    return [
        ("backbone", _backbone(about.backbone)),
        ("adapter", _adapter(EvaluatedAdapter(kind=about.adapter["kind"], options=about.adapter.get("options", {})))),
        ("settings", _words({name: about.settings.get(name) for name in names})),
        ("time", "" if about.seconds is None else duration(about.seconds)),
        ("machine", _words({"processes": about.processes, "threads": about.threads})),
        ("commit", about.git_commit or ""),
        ("command", about.command or ""),
    ]


def _backbone(backbone: BackboneInfo | None) -> str:
    if backbone is None:
        return ""
    names = ("layers", "heads", "dim", "patch_size", "image_size", "pooling", "pooled_layers", "precision")
    shape = {name: backbone.get(name) for name in names if name in backbone}
    return f"{backbone['source']} ({_words(shape)}; {backbone['fingerprint'][:12]})"


def _adapter(entry: EvaluatedAdapter) -> str:
    shot, options = entry.get("train_shot"), entry.get("options")
    told = [entry.get("kind", ""), f"({_words(options)})" if options else ""]
    told += [f"trained for {plural(shot, 'shot')}" if shot is not None else "", entry.get("fingerprint", "")[:12]]
    return " ".join(part for part in told if part)


def _words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_word(value)}" for name, value in values.items() if value is not None)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " and ".join(str(entry) for entry in value)
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _target_rows(evaluation: Evaluation) -> list[tuple[Cell, ...]]:
    rows = []
    for name, about in evaluation.results.data.items():
        counts = list(about.get("classes", {}).values())
        spread = (
            f"{min(counts):,} – {max(counts):,}"
            if counts and min(counts) < max(counts)
            else f"{counts[0]:,}"
            if counts
            else ""
        )
        left = len(about.get("unreadable", ())) + len(about.get("skipped", ()))
        texts = (
            name,
            "target",
            number(about.get("images"), 0),
            str(len(counts)),
            spread,
            str(left),
            about.get("fingerprint", "")[:12],
        )
        rows.append(tuple(Cell(content) for content in texts))
    return rows


def _base_rows(training: Training) -> list[tuple[Cell, ...]]:
    rows = []
    for role, about in training.about.data.items():
        role = {"val": "validation"}.get(role, role)
        texts = (
            about.get("name", ""),
            role,
            number(about.get("images"), 0),
            str(about.get("classes", "")),
            "",
            "",
            about.get("fingerprint", "")[:12],
        )
        rows.append(tuple(Cell(content) for content in texts))
    return rows
