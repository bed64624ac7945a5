"""What a page is made of: results, training runs, analyses and ablations, each with the name it goes by."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cplsr.errors import InputError
from cplsr.evaluation.results import Results
from cplsr.report.tables import Table

BOUND_TERMS = ("V_tr", "V_wit", "Ed2", "base_term", "tr_sigma", "tr_sigma_tau")


@dataclass(frozen=True)
class Evaluation:
    """A results file of `cplsr evaluate`."""

    name: str
    results: Results


@dataclass(frozen=True)
class Training:
    """A run folder of `cplsr train`.

    about: what run.json says.
    episodes: (episode, loss, images per second). validations: (episode, accuracy, half-width).
    distances: of every layer its (episode, ‖C − I‖); empty for adapters without C.
    """

    name: str
    about: Mapping[str, Any]
    episodes: tuple[tuple[float, float, float], ...]
    validations: tuple[tuple[float, float, float | None], ...]
    distances: Mapping[str, tuple[tuple[float, float], ...]]


@dataclass(frozen=True)
class Side:
    """What was measured on one domain, before or after adapting; bound terms by shot."""

    within_between: float
    bound: Mapping[str, Mapping[str, float | None]]
    proxy_distance: float | None
    attention_entropy: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class AnalyzedDomain:
    """One domain of an analysis; without an adapter there is no after.

    cosine: of embeddings before and after. shift: of their mean, in units of the spread. `None` in older analyses.
    """

    name: str
    images: int
    before: Side
    after: Side | None
    cosine: float | None = None
    shift: float | None = None


@dataclass(frozen=True)
class Head:
    """What C is in one head; `entropy_change` where attention was measured."""

    layer: int
    head: int
    distance: float
    singular_min: float
    singular_max: float
    condition: float
    asymmetry: float
    entropy_change: float | None


@dataclass(frozen=True)
class Cost:
    """What an adapter costs at one image size."""

    adapter: str
    image_size: int
    tokens: int
    parameters: float
    flops: float
    seconds: float | None


@dataclass(frozen=True)
class Panel:
    """One domain in two dimensions, before or after adapting."""

    domain: str
    stage: str
    classes: tuple[str, ...]
    labels: tuple[int, ...]
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class AttentionImage:
    """A picture of where the class token looks, as the bytes of a PNG file."""

    domain: str
    image: str
    png: bytes


@dataclass(frozen=True)
class Analysis:
    """A folder of `cplsr analyze`."""

    name: str
    about: Mapping[str, Any]
    domains: tuple[AnalyzedDomain, ...]
    heads: tuple[Head, ...]
    costs: tuple[Cost, ...]
    panels: tuple[Panel, ...]
    attention: tuple[AttentionImage, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Ablation:
    """A folder of `cplsr ablate`: the contents of its files, one for each run, and the table they make."""

    name: str
    runs: tuple[Mapping[str, Any], ...]
    table: Table


@dataclass(frozen=True)
class Material:
    """Everything that goes on a page, and the files it came from with the first digits of their SHA-256."""

    evaluations: tuple[Evaluation, ...] = ()
    trainings: tuple[Training, ...] = ()
    analyses: tuple[Analysis, ...] = ()
    ablations: tuple[Ablation, ...] = ()
    files: tuple[tuple[str, str], ...] = ()


def training_of(name: str, about: Mapping[str, Any], metrics: list[Mapping[str, Any]]) -> Training:
    """A run from the contents of run.json and metrics.jsonl."""
    for key in ("settings", "adapter", "backbone", "data", "versions"):
        _mapping(about[key])
    distances: dict[str, list[tuple[float, float]]] = {}
    for row in metrics:
        for layer, distance in _mapping(row.get("distance_from_identity") or {}).items():
            distances.setdefault(layer, []).append((float(row["episode"]), float(distance)))
    return Training(
        name=name,
        about=about,
        episodes=tuple(
            (float(row["episode"]), float(row["loss"]), float(row["images_per_second"]))
            for row in metrics
            if "loss" in row
        ),
        validations=tuple(
            (float(row["episode"]), float(row["validation"]), _maybe(float, row.get("validation_ci95")))
            for row in metrics
            if "validation" in row
        ),
        distances={layer: tuple(points) for layer, points in distances.items()},
    )


def analysis_of(name: str, content: Mapping[str, Any], read: Callable[[str], bytes], panels: list[Any]) -> Analysis:
    """An analysis from the contents of analysis.json and umap.json.

    read: gives the bytes of a file beside analysis.json.
    """
    for key in ("backbone", "versions"):
        _mapping(content[key])
    return Analysis(
        name=name,
        about=content,
        domains=tuple(_domain(title, entry) for title, entry in _mapping(content["domains"]).items()),
        heads=tuple(_head(entry) for entry in content["heads"]),
        costs=tuple(_cost(entry) for entry in content["cost"]),
        panels=tuple(_panel(entry) for entry in panels),
        attention=tuple(
            AttentionImage(str(entry["domain"]), str(entry["image"]), _png(read(entry["file"]), entry["file"]))
            for entry in content["attention"]
        ),
        notes=tuple(str(note) for note in content["notes"]),
    )


def _domain(name: str, entry: Mapping[str, Any]) -> AnalyzedDomain:
    before, after, drift = _side(entry["before"]), _maybe(_side, entry["after"]), entry.get("drift")
    if drift is None:
        return AnalyzedDomain(name, int(entry["images"]), before, after)
    cosine, shift = float(drift["cosine"]), _or_infinite(drift["shift"])
    return AnalyzedDomain(name, int(entry["images"]), before, after, cosine, shift)


def _side(entry: Mapping[str, Any]) -> Side:
    bound = {
        str(shot): {term: _maybe(float, terms[term]) for term in BOUND_TERMS}
        for shot, terms in _mapping(entry["bound"]).items()
    }
    return Side(
        within_between=_or_infinite(entry["within_between"]),
        bound=bound,
        proxy_distance=_maybe(float, entry["proxy_distance"]),
        attention_entropy=tuple(tuple(float(value) for value in layer) for layer in entry["attention_entropy"] or ()),
    )


def _head(entry: Mapping[str, Any]) -> Head:
    figures = {
        key: _or_infinite(entry[key]) for key in ("distance", "singular_min", "singular_max", "condition", "asymmetry")
    }
    change = _maybe(float, entry["entropy_change"])
    return Head(layer=int(entry["layer"]), head=int(entry["head"]), entropy_change=change, **figures)


def _cost(entry: Mapping[str, Any]) -> Cost:
    return Cost(
        adapter=str(entry["adapter"]),
        image_size=int(entry["image_size"]),
        tokens=int(entry["tokens"]),
        parameters=float(entry["parameters"]),
        flops=float(entry["flops"]),
        seconds=_maybe(float, entry["seconds"]),
    )


def _panel(entry: Mapping[str, Any]) -> Panel:
    labels = tuple(int(label) for label in entry["labels"])
    x, y = (tuple(float(value) for value in entry[axis]) for axis in ("x", "y"))
    if not len(labels) == len(x) == len(y):
        raise ValueError(f"a panel has {len(labels)} labels, {len(x)} x and {len(y)} y")
    return Panel(str(entry["domain"]), str(entry["stage"]), tuple(str(c) for c in entry["classes"]), labels, x, y)


def _or_infinite(value: Any) -> float:
    """A figure that JSON holds as null where it is infinite."""
    return math.inf if value is None else float(value)


def _png(content: bytes, name: str) -> bytes:
    if not content.startswith(b"\x89PNG\r\n\x1a\n"):
        raise InputError(f"{name} is not a PNG picture: run `cplsr analyze` again")
    return content


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{str(value)[:40]!r} stands where names and values were wanted")
    return value


def _maybe(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else convert(value)
