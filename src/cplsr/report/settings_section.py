"""Data and settings: what the figures depend on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from cplsr.errors import counted
from cplsr.records.analysis import Analysis
from cplsr.records.parts import BackboneInfo
from cplsr.records.results import EvaluationSettings, Results
from cplsr.records.run import TrainingRun
from cplsr.report.markup import element, number, text
from cplsr.report.sections import Section, details, facts, paragraph, table_with_sources
from cplsr.report.sources import Ablation, Material, Training
from cplsr.report.summary import duration
from cplsr.report.tables import table


def data_section(material: Material) -> Section:
    """How many images of how many classes, and what was left out."""
    rows = [row for _, results in material.of(Results) for row in _target_rows(results)]
    rows += [row for _, training in material.of(Training) for row in _base_rows(training)]
    if not rows:
        return Section("data", "Data", "")
    columns = ("domain", "role", "images", "classes", "images per class", "left out", "fingerprint")
    return Section("data", "Data", table_with_sources(table("", columns, dict.fromkeys(rows), left=2)))


def settings_section(material: Material, command: str | None) -> Section:
    """Backbones, adapters, options, versions, and the files this page was made from."""
    parts = []
    for name, results in material.of(Results):
        settings = results.settings
        parts.append(_block(f"Evaluation: {name}", _evaluation_facts(settings), settings, results.versions))
    for name, training in material.of(Training):
        about = training.about
        parts.append(_block(f"Training: {name}", _training_facts(about), about.to_json(), about.versions))
    for name, analysis in material.of(Analysis):
        whole = {"backbone": analysis.backbone, "adapter": analysis.adapter, "settings": analysis.settings}
        shown = [("backbone", _backbone(analysis.backbone)), ("adapter", _options(analysis.adapter or {}))]
        parts.append(_block(f"Analysis: {name}", shown, whole, analysis.versions))
    for name, ablation in material.of(Ablation):
        commands = [(f"{run.row}, {run.shot}-shot, seed {run.seed}", run.command) for run in ablation.runs]
        parts.append(element("h3", text(f"Ablation: {name}")) + facts(commands))
    files = element(
        "ul",
        *(element("li", element("code", text(name)), text(f" sha256 {digest}…")) for name, digest in material.files),
    )
    made = paragraph("Made from") + files
    if command:
        made += paragraph("by") + element("pre", text(command))
    return Section("settings", "Settings", "".join(parts) + element("h3", "This page") + made, folded=True)


def _block(title: str, shown: list[tuple[str, str]], everything: Mapping[str, Any], versions: Mapping[str, Any]) -> str:
    whole = json.dumps(everything, indent=2, ensure_ascii=False)
    numbers = [("versions", ", ".join(f"{name} {version}" for name, version in versions.items()))]
    folded = details("All settings", element("pre", text(whole)), "copy")
    return element("h3", text(title)) + facts([*shown, *numbers]) + folded


def _evaluation_facts(settings: EvaluationSettings) -> list[tuple[str, str]]:
    return [
        ("backbone", _backbone(settings.get("backbone"))),
        *((f"adapter {entry.get('name', '')}", _adapter(entry)) for entry in settings.get("adapters", ())),
        ("episodes", _options({key: settings.get(key) for key in ("way", "shots", "query", "episodes", "seed")})),
        ("classifier", _options({key: settings.get(key) for key in ("prototype", "temperature")})),
        ("interval", settings.get("interval", "")),
        ("command", settings.get("command", "")),
    ]


def _training_facts(about: TrainingRun) -> list[tuple[str, str]]:
    names = ("way", "shot", "query", "episodes", "lr", "seed", "sst", "pe", "select", "statistics", "shrinkage")
    return [
        ("backbone", _backbone(about.backbone)),
        ("adapter", _adapter(about.adapter)),
        ("settings", _options({name: about.settings.get(name) for name in names})),
        ("time", "" if about.seconds is None else duration(about.seconds)),
        ("machine", _options({"processes": about.processes, "threads": about.threads})),
        ("commit", about.git_commit or ""),
        ("command", about.command or ""),
    ]


def _backbone(backbone: BackboneInfo | None) -> str:
    if backbone is None:
        return ""
    names = ("layers", "heads", "dim", "patch_size", "image_size", "pooling", "pooled_layers", "precision")
    shape = {name: backbone.get(name) for name in names if name in backbone}
    return f"{backbone['source']} ({_options(shape)}; {backbone['fingerprint'][:12]})"


def _adapter(entry: Mapping[str, Any]) -> str:
    shot, options = entry.get("train_shot"), entry.get("options")
    parts = [entry.get("kind", ""), f"({_options(options)})" if options else ""]
    parts += [f"trained for {counted(shot, 'shot')}" if shot is not None else "", entry.get("fingerprint", "")[:12]]
    return " ".join(filter(None, parts))


def _options(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {_option(value)}" for name, value in values.items() if value is not None
    )


def _option(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " and ".join(str(entry) for entry in value)
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _target_rows(results: Results) -> Iterator[tuple[str, ...]]:
    for name, about in results.data.items():
        counts = list(about.get("classes", {}).values())
        sizes = sorted({min(counts), max(counts)}) if counts else []
        spread = " – ".join(f"{size:,}" for size in sizes)
        left_out = str(len(about.get("unreadable", ())) + len(about.get("skipped", ())))
        images, fingerprint = number(about.get("images"), 0), about.get("fingerprint", "")[:12]
        yield name, "target", images, str(len(counts)), spread, left_out, fingerprint


def _base_rows(training: Training) -> Iterator[tuple[str, ...]]:
    for part, about in training.about.data.items():
        role = {"val": "validation"}.get(part, part)
        images, fingerprint = number(about.get("images"), 0), about.get("fingerprint", "")[:12]
        yield about.get("name", ""), role, images, str(about.get("classes", "")), "", "", fingerprint
