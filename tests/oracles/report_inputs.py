"""Small made-up inputs of a report, one of each kind, with every part that such a file can have."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

from PIL import Image

from cplsr.records.results import AccuracyRow, CalibrationBin, CalibrationRow, ConfusionRow, PairedRow, Results

BACKBONE = {
    "source": "embedded", "fingerprint": "2f29526f6c2124a159ff299b19783207", "dim": 192, "heads": 3, "layers": 6,
    "patch_size": 16, "image_size": 112, "pooling": "cls", "precision": "fp32",
}  # fmt: skip
VIT_S16 = {**BACKBONE, "source": "facebook/dino-vits16", "dim": 384, "heads": 6, "layers": 12, "image_size": 224}
VERSIONS = {"cplsr": "0.1.0", "python": "3.11.7", "torch": "2.13.0"}
CLASSES = ("annual crop", "forest", "herbaceous vegetation", "highway", "industrial", "pasture", "river")


def results(
    targets: tuple[str, ...] = ("landcover", "leaf"),
    *,
    methods: tuple[str, ...] = ("frozen", "CPLSR"),
    shots: tuple[int, ...] = (1, 5),
    classes: tuple[str, ...] = CLASSES,
    backbone: dict[str, Any] = BACKBONE,
    flags: tuple[str, ...] = (),
) -> Results:
    """Accuracies 40, 50, 60 … with a gain of each method that turns negative on the last target."""
    rows, paired, confusion, calibration = [], [], [], []
    for t, target in enumerate(targets):
        for shot in shots:
            for m, method in enumerate(methods):
                sign = -1 if t == len(targets) - 1 and t > 0 else 1
                accuracy = 40.0 + 7 * t + 3 * shot + sign * 1.5 * m
                rows.append(AccuracyRow(method, target, shot, 5, 15, 1000, 0, None if m == 0 else 5, accuracy, 0.55))
                if m:
                    paired.append(PairedRow(method, methods[0], target, shot, sign * 1.5 * m, 0.3, 0.55))
                confusion.append(confusion_row(method, target, shot, classes, m))
                calibration.append(calibration_row(method, target, shot, m))
    about = {name: dict.fromkeys(classes, 60) for name in targets}
    return Results(
        rows=tuple(rows),
        paired=tuple(paired),
        confusion=tuple(confusion),
        calibration=tuple(calibration),
        settings={
            "backbone": backbone,
            "adapters": [{"name": m, "kind": "coalescent", "options": {"seed": 0}} for m in methods[1:]],
            "shots": list(shots), "way": 5, "query": 15, "episodes": 1000, "seed": 0, "prototype": "mean",
            "temperature": 20.0, "interval": "1.96 * sample standard deviation / sqrt(episodes)",
        },
        versions=VERSIONS,
        data={
            name: {"name": name, "images": 60 * len(classes), "classes": counts, "fingerprint": "9296dbaf",
                   "grouped": False, "unreadable": ["broken.jpg"], "skipped": []}
            for name, counts in about.items()
        },
        flags=flags,
    )  # fmt: skip


def confusion_row(method: str, target: str, shot: int, classes: tuple[str, ...], better: int) -> ConfusionRow:
    """Most queries recognized, the others taken mostly for the class after it."""
    counts = []
    for i in range(len(classes)):
        hit = 55 + 5 * better + (7 * i) % 30
        line = [1 + (3 * (i + j)) % 5 for j in range(len(classes))]
        line[(i + 1) % len(classes)] = 100 - hit
        line[i] = hit
        counts.append(tuple(line))
    recall = tuple(line[i] / sum(line) for i, line in enumerate(counts))
    return ConfusionRow(method, target, shot, classes, tuple(counts), recall)


def calibration_row(method: str, target: str, shot: int, better: int) -> CalibrationRow:
    """Too sure of itself, by a little."""
    middles = [(place + 0.5) / 15 for place in range(3, 15)]
    shares = [math.exp(-((middle - 0.6) ** 2) / 0.05) for middle in middles]
    bins = tuple(
        CalibrationBin(middle, middle - (0.12 - 0.05 * better) * math.sin(3 * middle), share / sum(shares))
        for middle, share in zip(middles, shares, strict=True)
    )
    ece = sum(entry.share * abs(entry.confidence - entry.accuracy) for entry in bins)
    return CalibrationRow(method, target, shot, 20.0, ece, bins)


def write_run(folder: Path, *, episodes: int = 60, finished: bool = True, layers: int = 6) -> Path:
    """A run folder with a falling loss and three validations."""
    folder.mkdir(parents=True)
    about = {
        "settings": {
            "way": 5,
            "shot": 5,
            "query": 5,
            "episodes": episodes,
            "lr": 3e-4,
            "sst": True,
            "pe": True,
            "seed": 0,
        },
        "adapter": {"kind": "coalescent", "options": {"seed": 0}},
        "backbone": BACKBONE,
        "data": {
            "base": {"name": "base", "classes": 64, "images": 2560, "fingerprint": "3fd8", "flags": []},
            "val": {
                "name": "base@val",
                "classes": 16,
                "images": 960,
                "fingerprint": "6509",
                "flags": ["a sample of 960"],
            },
        },
        "versions": VERSIONS,
        "git_commit": "0ae88b61e730",
        "processes": 1,
        "threads": 2,
        "finished": finished,
        "seconds": 45.7,
        "start_accuracy": 51.4,
        "last_accuracy": 53.4,
        "best_accuracy": 53.4,
        "best_episode": episodes,
    }
    lines = []
    for episode in range(episodes + 1):
        if episode:
            loss = 0.6 + 0.4 * math.exp(-episode / 20) + 0.05 * math.sin(7 * episode)
            lines.append({"episode": episode, "loss": loss, "accuracy": 50.0, "images_per_second": 240 + episode % 9})
        if episode % (episodes // 3) == 0:
            distances = {str(layer): 0.02 * episode * (1 + 0.3 * layer) for layer in range(layers)}
            lines.append({"episode": episode, "validation": 51.4 + episode / 30, "validation_ci95": 2.4,
                          "distance_from_identity": distances})  # fmt: skip
    (folder / "run.json").write_text(json.dumps(about))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def side(shift: float) -> dict[str, Any]:
    """What an analysis says of a domain at one stage."""
    terms = {"V_tr": 0.012, "V_wit": 0.34, "Ed2": 0.21, "base_term": 3.1, "tr_sigma": 0.2, "tr_sigma_tau": 0.5}
    bound = {shot: {name: value * (1 - shift / 10) for name, value in terms.items()} for shot in ("1", "5")}
    entropy = [[3.5 - 0.2 * layer + 0.1 * head - shift / 5 for head in range(3)] for layer in range(6)]
    return {
        "within_between": 2.5 - shift,
        "bound": bound,
        "proxy_distance": 1.7 - shift / 4,
        "attention_entropy": entropy,
    }


def analysis(domains: tuple[str, ...] = ("landcover", "leaf"), classes: tuple[str, ...] = CLASSES) -> dict[str, Any]:
    """The content of analysis.json."""
    return {
        "backbone": BACKBONE,
        "adapter": {"name": "CPLSR", "kind": "coalescent", "fingerprint": "ab12", "parameters": 73728},
        "versions": VERSIONS,
        "settings": {"way": 5, "seed": 0},
        "domains": {
            name: {
                "images": 700,
                "before": side(0.0),
                "after": side(0.4),
                "drift": {"cosine": 0.987, "shift": 0.065},
            }
            for name in domains
        },
        "heads": [
            {"layer": layer, "head": head, "distance": 0.3 + 0.1 * layer + 0.15 * head, "singular_min": 0.8,
             "singular_max": 1.3, "condition": 1.6, "asymmetry": 0.05, "entropy_change": 0.1 * head - 0.15}
            for layer in range(6) for head in range(3)
        ],
        "cost": [
            {"adapter": name, "image_size": size, "tokens": (size // 16) ** 2 + 1, "parameters": parameters,
             "flops": round(1e9 * (size / 112) ** 2 * factor), "seconds": 0.01 * (size / 112) ** 2 * factor}
            for name, parameters, factor in (("frozen", 0, 1.0), ("CP", 73728, 1.02), ("attn_scale", 10**6, 1.1))
            for size in (112, 224, 448)
        ],
        "umap": "umap.json",
        "attention": [{"domain": domains[0], "image": f"{classes[0]}/0001.jpg", "file": "attention/a-0.png"}],
        "notes": ["λ and the sample-size term are not estimated"],
    }  # fmt: skip


def write_analysis(folder: Path, content: dict[str, Any] | None = None, classes: tuple[str, ...] = CLASSES) -> Path:
    """An analysis folder with coordinates and a picture."""
    content = analysis() if content is None else content
    (folder / "attention").mkdir(parents=True)
    panels = []
    for domain in content["domains"]:
        for stage, radius in (("before", 2.0), ("after", 4.0)):
            labels = [number % len(classes) for number in range(280)]
            turn = [2 * math.pi * label / len(classes) for label in labels]
            x = [radius * math.cos(t) + math.sin(1.7 * n) for n, t in enumerate(turn)]
            y = [radius * math.sin(t) + math.cos(2.3 * n) for n, t in enumerate(turn)]
            panels.append(
                {"domain": domain, "stage": stage, "classes": list(classes), "labels": labels, "x": x, "y": y}
            )
    stream = io.BytesIO()
    Image.linear_gradient("L").resize((596, 332)).save(stream, "PNG")
    (folder / "attention" / "a-0.png").write_bytes(stream.getvalue())
    (folder / "umap.json").write_text(json.dumps({"panels": panels}))
    (folder / "analysis.json").write_text(json.dumps(content))
    return folder


def write_ablation(
    folder: Path, targets: tuple[str, ...] = ("landcover", "leaf"), shots: tuple[int, ...] = (5,)
) -> Path:
    """An ablation of three rows."""
    folder.mkdir(parents=True)
    rows = (("frozen", "frozen"), ("CP + PE + SST", "coalescent"), ("AttnScale", "attn_scale"))
    for shot in shots:
        for number, (row, kind) in enumerate(rows):
            methods = ("frozen",) if kind == "frozen" else ("frozen", row)
            content = {
                "row": row, "shot": shot, "seed": 0, "settings": {"episodes": 60}, "adapter": {"kind": kind},
                "backbone": BACKBONE, "results": results(targets, methods=methods, shots=(shot,)).to_json(),
                "training": {"seconds": 12.0, "parameters": 100 * number},
                "command": f"cplsr ablate recipe.toml --only {row!r}",
                "versions": VERSIONS,
            }  # fmt: skip
            (folder / f"{number}-{shot}shot-seed0.json").write_text(json.dumps(content))
    (folder / "tuning.json").write_text('{"CP + PE + SST": 0.001}')
    return folder


def write_everything(folder: Path, *, targets: tuple[str, ...] = ("landcover", "leaf"), **options: Any) -> Path:
    """A folder with one of each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    results(targets, **options).write(folder / "results.json")
    write_run(folder / "run")
    write_analysis(folder / "analysis")
    write_ablation(folder / "ablation")
    return folder
