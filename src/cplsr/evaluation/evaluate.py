"""Methods on target domains: the same episodes for all, so that differences are paired."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from cplsr.adapters.attach import detach
from cplsr.adapters.store import AdapterInfo, load_adapter, read_adapter_info
from cplsr.environment import versions
from cplsr.episodes.prototypes import TEMPERATURE, PrototypeKind
from cplsr.episodes.sampling import EpisodeSampler
from cplsr.errors import InputError
from cplsr.evaluation.benchmark import episode_accuracies
from cplsr.evaluation.cache import EmbeddingCache
from cplsr.evaluation.embed import Embeddings, embed_domain
from cplsr.evaluation.intervals import Z95, mean_interval, paired_difference
from cplsr.evaluation.results import FROZEN, PairedRow, Results, Row

if TYPE_CHECKING:
    from cplsr.backbones.backbone import Backbone
    from cplsr.data.domain import Domain


@dataclass(frozen=True)
class EpisodeSettings:
    """Which episodes a method is measured on; the paper's by default."""

    shots: tuple[int, ...] = (1, 5)
    way: int = 5
    query: int = 15
    episodes: int = 5000
    seed: int = 0
    prototype: PrototypeKind = "mean"

    def __post_init__(self) -> None:
        """Refuse what no episode can be drawn from."""
        if not self.shots or len(set(self.shots)) < len(self.shots):
            raise InputError(f"shots are {list(self.shots)}: give at least one, each once")
        if self.episodes < 1:
            raise InputError(f"{self.episodes} episodes were asked for: give at least 1")


@dataclass(frozen=True)
class Method:
    """A name, the embeddings it gives to one target's images, and the shot it was trained for, if any."""

    name: str
    embeddings: Embeddings
    train_shot: int | None = None


def evaluate(
    backbone: Backbone,
    targets: Mapping[str, Domain],
    *,
    adapters: Sequence[tuple[str, str | Path]] = (),
    settings: EpisodeSettings | None = None,
    match_shot: bool = False,
    cache: EmbeddingCache | None = None,
    batch_size: int = 64,
    workers: int | None = None,
    strict: bool = False,
) -> Results:
    """Accuracy of the frozen backbone, and of stored adapters on it, on every target.

    targets: domains by the name they get in the results.
    adapters: (name, where it is stored). Each gets rows of its own and paired differences from the frozen backbone.
    match_shot: measure an adapter only at the shot it was trained for; two of one name may then share a line.
    cache: where embeddings are looked up and kept; `None` keeps none.
    """
    settings = settings or EpisodeSettings()
    stored = [(name, read_adapter_info(source)) for name, source in adapters]
    _check_request(backbone, targets, stored, match_shot)

    def embed(domain: Domain) -> Embeddings:
        return embed_domain(backbone, domain, batch_size=batch_size, workers=workers, strict=strict, cache=cache)

    rows: list[Row] = []
    paired: list[PairedRow] = []
    data: dict[str, dict[str, Any]] = {}
    flags = _adapter_flags(backbone, stored)
    for target, domain in targets.items():
        methods = [Method(FROZEN, embed(domain))]
        for name, info in stored:
            with _adapter_on(backbone, info):
                methods.append(Method(name, embed(domain), info.info.get("shot")))
        target_rows, target_paired, left_out = evaluate_embeddings(
            methods, target=target, settings=settings, match_shot=match_shot
        )
        rows += target_rows
        paired += target_paired
        data[target] = _describe_data(domain, methods[0].embeddings)
        flags += [f"{target}: {flag}" for flag in _data_flags(domain, methods[0].embeddings, left_out)]
    return Results(
        rows=tuple(rows),
        paired=tuple(paired),
        settings=_describe_settings(backbone, stored, settings, match_shot),
        versions=versions(),
        data=data,
        flags=tuple(flags),
    )


def evaluate_embeddings(
    methods: Sequence[Method], *, target: str, settings: EpisodeSettings, match_shot: bool = False
) -> tuple[list[Row], list[PairedRow], list[str]]:
    """Rows of all methods on one target, differences of the later ones from the first, and classes left out.

    Only images that every method has an embedding of take part, so that all see the same episodes.
    """
    methods = _on_common_images(methods)
    labels, groups = methods[0].embeddings.labels, methods[0].embeddings.groups
    classes = methods[0].embeddings.classes
    rows: list[Row] = []
    paired: list[PairedRow] = []
    left_out: dict[str, None] = {}
    for shot in settings.shots:
        try:
            sampler = EpisodeSampler(
                labels, way=settings.way, shot=shot, query=settings.query, seed=settings.seed, groups=groups
            )
        except InputError as error:
            raise InputError(f"{target}: {error}") from error
        left_out.update(dict.fromkeys(f"class {classes[label]} ({n} images)" for label, n in sampler.left_out))
        episodes = sampler.draw(settings.episodes)
        accuracies: list[Float64[ndarray, "episodes"]] = []
        for method in methods:
            if match_shot and method.train_shot not in (None, shot):
                continue
            percent = 100 * episode_accuracies(method.embeddings.vectors, episodes, prototype=settings.prototype)
            rows.append(_row(method, target, shot, settings, percent))
            if accuracies:
                paired.append(_paired_row(method.name, methods[0].name, target, shot, percent, accuracies[0]))
            accuracies.append(percent)
    return rows, paired, list(left_out)


def _row(method: Method, target: str, shot: int, settings: EpisodeSettings, percent: ndarray) -> Row:
    interval = mean_interval(percent)
    return Row(
        method=method.name,
        target=target,
        shot=shot,
        way=settings.way,
        query=settings.query,
        episodes=settings.episodes,
        seed=settings.seed,
        train_shot=method.train_shot,
        accuracy=interval.mean,
        ci95=interval.half_width,
    )


def _paired_row(method: str, against: str, target: str, shot: int, percent: ndarray, base: ndarray) -> PairedRow:
    result = paired_difference(percent, base)
    return PairedRow(method, against, target, shot, result.difference.mean, result.difference.half_width, result.wins)


def _on_common_images(methods: Sequence[Method]) -> list[Method]:
    common = reduce(np.intersect1d, [method.embeddings.indices for method in methods])
    if all(len(method.embeddings) == len(common) for method in methods):
        return list(methods)
    return [replace(method, embeddings=method.embeddings.only(common)) for method in methods]


@contextmanager
def _adapter_on(backbone: Backbone, info: AdapterInfo) -> Iterator[None]:
    load_adapter(backbone, info.folder)
    try:
        yield
    finally:
        detach(backbone)


def _check_request(
    backbone: Backbone, targets: Mapping[str, Domain], stored: list[tuple[str, AdapterInfo]], match_shot: bool
) -> None:
    if not targets:
        raise InputError("there is no target to evaluate on: give at least one")
    if backbone.adapter is not None:
        raise InputError("the backbone carries an adapter, so it is not frozen: detach it and give it as `adapters`")
    seen: set[tuple[str, object]] = set()
    for name, info in stored:
        shot = info.info.get("shot")
        if match_shot and shot is None:
            raise InputError(f"the adapter {name} does not say which shot it was trained for: leave out --match-shot")
        identity = (name, shot if match_shot else None)
        if name == FROZEN or identity in seen:
            raise InputError(f"the name {name!r} is taken by another method: give the adapter its own, as NAME=PATH")
        seen.add(identity)


def _adapter_flags(backbone: Backbone, stored: list[tuple[str, AdapterInfo]]) -> list[str]:
    """Where an adapter is evaluated otherwise than it was trained."""
    flags = []
    for name, info in stored:
        for setting in ("image_size", "pooling", "fingerprint"):
            trained, used = info.backbone.get(setting), getattr(backbone, setting)
            if trained not in (None, used):
                what = "backbone" if setting == "fingerprint" else setting.replace("_", " ")
                flags.append(f"{name} was trained with another {what} than it is evaluated with: {trained}, not {used}")
    return flags


def _describe_settings(
    backbone: Backbone, stored: list[tuple[str, AdapterInfo]], settings: EpisodeSettings, match_shot: bool
) -> dict[str, Any]:
    return {
        "backbone": backbone.description(),
        "adapters": [
            {"name": name, "source": str(info.folder), "kind": info.kind, "options": info.options,
             "fingerprint": info.fingerprint, "train_shot": info.info.get("shot")}
            for name, info in stored
        ],
        "shots": list(settings.shots),
        "way": settings.way,
        "query": settings.query,
        "episodes": settings.episodes,
        "seed": settings.seed,
        "match_shot": match_shot,
        "prototype": settings.prototype,
        "temperature": TEMPERATURE,
        "interval": f"{Z95} * sample standard deviation / sqrt(episodes)",
    }  # fmt: skip


def _describe_data(domain: Domain, embeddings: Embeddings) -> dict[str, Any]:
    counts = np.bincount(embeddings.labels, minlength=len(domain.classes)).tolist()
    return {
        "name": domain.name,
        "images": len(embeddings),
        "classes": dict(zip(domain.classes, counts, strict=True)),
        "grouped": domain.groups is not None,
        "fingerprint": domain.fingerprint,
        "unreadable": [name for name, _ in embeddings.failed],
        "skipped": [name for name, _ in domain.skipped],
    }


def _data_flags(domain: Domain, embeddings: Embeddings, left_out: list[str]) -> list[str]:
    flags = list(domain.flags)
    if embeddings.failed:
        flags.append(f"{len(embeddings.failed)} images could not be read and were left out")
    flags += [f"{what} was left out: too few images for an episode" for what in left_out]
    return flags
