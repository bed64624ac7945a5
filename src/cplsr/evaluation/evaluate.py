"""Methods on target domains: the same episodes for all, so that differences are paired."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import groupby, product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy import ndarray

from cplsr.adapters.attach import detach
from cplsr.adapters.store import load_adapter, read_adapter_info
from cplsr.environment import versions
from cplsr.episodes.heads import Head, make_head
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.episodes.sampling import Episodes, EpisodeSampler
from cplsr.errors import InputError
from cplsr.evaluation.cache import EmbeddingCache
from cplsr.evaluation.calibration import bin_means, expected_calibration_error
from cplsr.evaluation.confusion import recall
from cplsr.evaluation.embed import Embeddings, Model, embed_many
from cplsr.evaluation.intervals import mean_interval, paired_difference
from cplsr.evaluation.provenance import adapter_flags, data_flags, describe_data, describe_settings
from cplsr.evaluation.scores import EpisodeScores, score_episodes
from cplsr.evaluation.scoring import Scoring
from cplsr.progress import progress_bar
from cplsr.records.adapter import AdapterInfo
from cplsr.records.results import (
    FROZEN,
    CalibrationBin,
    CalibrationRow,
    ConfusionRow,
    PairedRow,
    Results,
    Row,
    TargetData,
)
from cplsr.settings.episodes import EpisodeSettings

if TYPE_CHECKING:
    from cplsr.backbones.backbone import Backbone
    from cplsr.data.domain import Domain


@dataclass(frozen=True)
class Method:
    """A name, the embeddings it gives to one target's images, the shot it was trained for, and how it answers."""

    name: str
    embeddings: Embeddings
    train_shot: int | None = None
    head: Head = field(default_factory=Prototypes)


@dataclass
class TargetResults:
    """What the methods came to on one target.

    left_out: classes with too few images for an episode.
    """

    rows: list[Row] = field(default_factory=list)
    paired: list[PairedRow] = field(default_factory=list)
    confusion: list[ConfusionRow] = field(default_factory=list)
    calibration: list[CalibrationRow] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def evaluate(
    backbone: Backbone,
    targets: Mapping[str, Domain],
    *,
    adapters: Sequence[tuple[str, str | Path]] = (),
    heads: Sequence[str | Head] = (Prototypes.name,),
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
    heads: how the embeddings of each of them answer, by name or with options of your own; each is a method of its own,
        such as `frozen ridge`. The paper's prototypes go without saying in a name and stand first.
    match_shot: measure an adapter only at the shot it was trained for; two of one name may then share a line.
    cache: where embeddings are looked up and kept; `None` keeps none.
    """
    settings = settings or EpisodeSettings()
    stored = [(name, read_adapter_info(source)) for name, source in adapters]
    chosen = _heads(heads, settings)
    _check_request(backbone, targets, stored, chosen, match_shot)
    models: list[Model] = [nullcontext, *(partial(_adapter_on, backbone, info) for _, info in stored)]

    found: list[TargetResults] = []
    data: dict[str, TargetData] = {}
    flags = adapter_flags(backbone, stored)
    for target, domain in targets.items():
        frozen, *adapted = embed_many(
            backbone, domain, models, batch_size=batch_size, workers=workers, strict=strict, cache=cache
        )
        named: list[tuple[str, Embeddings, int | None]] = [(FROZEN, frozen, None)]
        named += [(name, own, info.shot) for (name, info), own in zip(stored, adapted, strict=True)]
        methods = [
            Method(method_name(name, backbone.pooling, head), own, shot, head)
            for name, own, shot in named
            for head in chosen
        ]
        found.append(evaluate_embeddings(methods, target=target, settings=settings, match_shot=match_shot))
        data[target] = describe_data(domain, frozen)
        flags += [f"{target}: {flag}" for flag in data_flags(domain, frozen, found[-1].left_out)]
    return Results(
        rows=tuple(row for each in found for row in each.rows),
        paired=tuple(row for each in found for row in each.paired),
        confusion=tuple(row for each in found for row in each.confusion),
        calibration=tuple(row for each in found for row in each.calibration),
        settings=describe_settings(backbone, stored, chosen, settings, match_shot),
        versions=versions(),
        data=data,
        flags=tuple(flags),
    )


def evaluate_embeddings(
    methods: Sequence[Method], *, target: str, settings: EpisodeSettings, match_shot: bool = False
) -> TargetResults:
    """All methods on one target, with differences of the later ones from the first.

    Only images that every method has an embedding of take part, so that all see the same episodes.
    """
    methods = _on_common_images(methods)
    embeddings = methods[0].embeddings
    found = TargetResults()
    drawn: dict[int, Episodes] = {}
    for shot in settings.shots:
        sampler = episode_sampler(embeddings, target, shot, settings)
        left_out = [f"class {embeddings.classes[label]} ({n} images)" for label, n in sampler.left_out]
        found.left_out += [what for what in left_out if what not in found.left_out]
        drawn[shot] = sampler.draw(settings.episodes)
    first: dict[int, ndarray] = {}
    with progress_bar(len(drawn) * len(methods), f"measuring {target}", unit="row") as bar:
        for _, group in groupby(methods, key=lambda method: id(method.embeddings)):
            same = list(group)
            scoring = Scoring(same[0].embeddings.vectors)
            for method, (shot, episodes) in product(same, drawn.items()):
                bar.update()
                if match_shot and method.train_shot not in (None, shot):
                    continue
                scores = score_episodes(scoring.scores(episodes, method.head), episodes, len(embeddings.classes))
                percent = 100 * scores.accuracies
                row = accuracy_row(method.name, target, shot, settings, method.train_shot, percent)
                found.rows.append(replace(row, together=method.head.together))
                found.confusion.append(_confusion_row(method, target, shot, scores))
                if method.head.temperature is not None:
                    found.calibration.append(_calibration_row(method, target, shot, method.head.temperature, scores))
                if shot in first:
                    found.paired.append(
                        difference_row(method.name, methods[0].name, target, shot, percent, first[shot])
                    )
                first.setdefault(shot, percent)
    for rows in (found.rows, found.paired, found.confusion, found.calibration):
        rows.sort(key=lambda row: settings.shots.index(row.shot))
    return found


def method_name(model: str, pooling: str, head: Head) -> str:
    """A model's name with its pooling and head, where these are not the paper's: `frozen depth ridge`."""
    return model + (" depth" if pooling == "depth" else "") + ("" if isinstance(head, Prototypes) else f" {head.name}")


def episode_sampler(embeddings: Embeddings, target: str, shot: int, settings: EpisodeSettings) -> EpisodeSampler:
    """What draws the episodes of a target at a shot; an error names the target."""
    try:
        return EpisodeSampler(
            embeddings.labels,
            way=settings.way,
            shot=shot,
            query=settings.query,
            seed=settings.seed,
            groups=embeddings.groups,
            queries=settings.queries,
        )
    except InputError as error:
        raise InputError(f"{target}: {error}") from error


def accuracy_row(
    name: str, target: str, shot: int, settings: EpisodeSettings, train_shot: int | None, percent: ndarray
) -> Row:
    """One row from the accuracies of all episodes, in percent."""
    interval = mean_interval(percent)
    return Row(
        method=name,
        target=target,
        shot=shot,
        way=settings.way,
        query=settings.query,
        episodes=settings.episodes,
        seed=settings.seed,
        train_shot=train_shot,
        accuracy=interval.mean,
        ci95=interval.half_width,
        queries=settings.queries,
    )


def difference_row(method: str, against: str, target: str, shot: int, percent: ndarray, base: ndarray) -> PairedRow:
    """One paired row from the accuracies of both on the same episodes, in percent."""
    result = paired_difference(percent, base)
    return PairedRow(method, against, target, shot, result.difference.mean, result.difference.half_width, result.wins)


def _confusion_row(method: Method, target: str, shot: int, scores: EpisodeScores) -> ConfusionRow:
    asked = np.flatnonzero(scores.confusion.sum(axis=1))
    counts = scores.confusion[np.ix_(asked, asked)]
    return ConfusionRow(
        method=method.name,
        target=target,
        shot=shot,
        classes=tuple(method.embeddings.classes[place] for place in asked),
        counts=tuple(map(tuple, counts.tolist())),
        recall=tuple(recall(counts).tolist()),
    )


def _calibration_row(
    method: Method, target: str, shot: int, temperature: float, scores: EpisodeScores
) -> CalibrationRow:
    return CalibrationRow(
        method=method.name,
        target=target,
        shot=shot,
        temperature=temperature,
        ece=expected_calibration_error(scores.calibration),
        bins=tuple(CalibrationBin(*values) for values in bin_means(scores.calibration).tolist()),
    )


def _on_common_images(methods: Sequence[Method]) -> list[Method]:
    common = reduce(np.intersect1d, [method.embeddings.indices for method in methods])
    if all(len(method.embeddings) == len(common) for method in methods):
        return list(methods)
    kept = {id(method.embeddings): method.embeddings.only(common) for method in methods}
    return [replace(method, embeddings=kept[id(method.embeddings)]) for method in methods]


def _heads(heads: Sequence[str | Head], settings: EpisodeSettings) -> list[Head]:
    """Heads by name, prototypes of the kind that was asked for, which stand first."""
    made = [
        head
        if isinstance(head, Head)
        else Prototypes(settings.prototype)
        if head == Prototypes.name
        else make_head(head)
        for head in heads
    ]
    names = [head.name for head in made]
    if not names or len(set(names)) < len(names):
        raise InputError(f"heads are {names}: give at least one, each once")
    return sorted(made, key=lambda head: not isinstance(head, Prototypes))


@contextmanager
def _adapter_on(backbone: Backbone, info: AdapterInfo) -> Iterator[None]:
    load_adapter(backbone, info.folder)
    try:
        yield
    finally:
        detach(backbone)


def _check_request(
    backbone: Backbone,
    targets: Mapping[str, Domain],
    stored: list[tuple[str, AdapterInfo]],
    heads: Sequence[Head],
    match_shot: bool,
) -> None:
    if not targets:
        raise InputError("there is no target to evaluate on: give at least one")
    if backbone.adapter is not None:
        raise InputError("the backbone carries an adapter, so it is not frozen: detach it and give it as `adapters`")
    taken = {method_name(FROZEN, backbone.pooling, head) for head in heads}
    seen: set[tuple[str, object]] = set()
    for name, info in stored:
        shot = info.shot
        if match_shot and shot is None:
            raise InputError(f"the adapter {name} does not say which shot it was trained for: leave out --match-shot")
        identity = (name, shot if match_shot else None)
        if name in taken or identity in seen:
            raise InputError(f"the name {name!r} is taken by another method: give the adapter its own, as NAME=PATH")
        seen.add(identity)
