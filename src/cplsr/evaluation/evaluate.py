"""Methods on target domains: the same episodes for all, so that differences are paired."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np

from cplsr.adapters.store import read_adapter_info
from cplsr.backbones.backbone import Backbone
from cplsr.data.domain import Domain
from cplsr.environment import versions
from cplsr.episodes.heads import Head, make_head
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.errors import InputError
from cplsr.evaluation.cache import EmbeddingCache
from cplsr.evaluation.contenders import Contender, HeadContender, TargetResults, draw_episodes, measure_contenders
from cplsr.evaluation.embed import Embeddings, Model, embed_many, stored_adapter
from cplsr.evaluation.provenance import data_flags, describe_data, describe_settings, other_than_trained
from cplsr.records.adapter import AdapterInfo
from cplsr.records.results import FROZEN, Results, SnapshotRow, TargetData
from cplsr.records.run import SNAPSHOTS
from cplsr.settings.episodes import EpisodeSettings


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
    """Measure the accuracy of the frozen backbone, and of stored adapters on it, on every target.

    Args:
        backbone: The backbone, without an adapter.
        targets: Domains by the name they get in the results.
        adapters: Name of each, and where it is stored; rows of their own have paired differences from the frozen ones.
        heads: How the embeddings of each of them answer: a name, a name with options (`ridge:penalty=1`) or a head;
            each is a method of its own, such as `frozen ridge penalty=1`. The paper's prototypes go without saying in
            a name and stand first.
        settings: The episodes; where they ask for balanced and unbalanced queries, the figures of the latter are
            `dirichlet` of the results.
        match_shot: Measure an adapter only at the shot it was trained for; two of one name may then share a line.
        cache: Where embeddings are looked up and kept; `None` keeps none.
        batch_size: Images that are embedded at a time.
        workers: Processes that decode images; `None` takes as many as suit the machine.
        strict: An image that cannot be read is an error; else it is left out with a warning.

    Raises:
        InputError: What was asked for cannot be measured, or a target has too few images for its episodes.
    """
    settings = settings or EpisodeSettings()
    stored = [(name, read_adapter_info(source)) for name, source in adapters]
    chosen = [head.with_parts(backbone.embedding_parts) for head in _heads(heads, settings)]
    _check_request(backbone, targets, stored, chosen, settings, match_shot)
    models: list[tuple[str, AdapterInfo | None]] = [(FROZEN, None), *stored]
    contexts: list[Model] = [nullcontext, *(partial(stored_adapter, backbone, info) for _, info in stored)]
    embed = partial(embed_many, backbone, batch_size=batch_size, workers=workers, strict=strict, cache=cache)
    measured: list[list[TargetResults]] = []  # for each target balanced and unbalanced queries
    data: dict[str, TargetData] = {}
    flags = [flag for name, info in stored for flag in other_than_trained(name, info, backbone, "evaluated")]
    for target, domain in targets.items():
        frozen, *_ = embedded = embed(domain, contexts)
        contenders = _contenders(backbone, zip(models, embedded, strict=True), chosen, settings)
        measure = partial(evaluate_embeddings, contenders, target=target, match_shot=match_shot)
        measured.append([measure(settings=each) for each in settings.by_queries])
        data[target] = describe_data(domain, frozen)
        flags += [f"{target}: {flag}" for flag in data_flags(domain, frozen, measured[-1][0].left_out)]
    results, *others = (_joined(each) for each in zip(*measured, strict=True))
    return replace(
        results,
        dirichlet=others[0] if others else None,
        settings=describe_settings(backbone, stored, chosen, settings, match_shot),
        versions=versions(),
        data=data,
        flags=tuple(flags),
    )


def _contenders(
    backbone: Backbone,
    models: Iterable[tuple[tuple[str, AdapterInfo | None], Embeddings]],
    heads: Sequence[Head],
    settings: EpisodeSettings,
) -> list[Contender]:
    return [
        HeadContender(
            name=method_name(model, backbone, head, settings),
            embeddings=embeddings,
            train_shot=None if info is None else info.shot,
            head=head,
            trained_temperature=None if info is None else info.temperature,
        )
        for (model, info), embeddings in models
        for head in heads
    ]


def _joined(measured: Sequence[TargetResults]) -> Results:
    """The figures of all targets."""
    return Results(
        rows=tuple(row for each in measured for row in each.rows),
        paired=tuple(row for each in measured for row in each.paired),
        confusion=tuple(row for each in measured for row in each.confusion),
        calibration=tuple(row for each in measured for row in each.calibration),
    )


def measure_snapshots(
    backbone: Backbone, targets: dict[str, Domain], run: str | Path, head: str = Prototypes.name, **options: Any
) -> tuple[SnapshotRow, ...]:
    """Measure every snapshot of a run on every target, with one head and the other options of `evaluate`.

    It tells what choosing the epoch on the target is worth. Nobody may choose so, for a target's labels are what is to
    be predicted; published figures are often chosen so all the same, and the difference between the best snapshot and
    the last shows by how much that flatters.
    """
    folder = Path(run).expanduser() / SNAPSHOTS
    kept = {path.name: path for path in sorted(folder.glob("*")) if path.name.isdigit()}
    if not kept:
        raise InputError(
            f"{run} has no {SNAPSHOTS}/, of which the best on the target could be told: train with --snapshots"
        )
    results = evaluate(backbone, targets, adapters=list(kept.items()), heads=[head], **options)
    episodes = ((row.method.partition(" ")[0], row) for row in results.rows)  # without what it was read with
    return tuple(
        SnapshotRow(int(episode), row.target, row.shot, row.accuracy, row.ci95)
        for episode, row in episodes
        if episode in kept
    )


def evaluate_embeddings(
    contenders: Sequence[Contender], *, target: str, settings: EpisodeSettings, match_shot: bool = False
) -> TargetResults:
    """Measure contenders on one target, shot by shot, with differences of the later ones from the first.

    Only images that every contender has an embedding of take part, so that all see the same episodes.
    """
    contenders = _on_common_images(contenders)
    drawn, left_out = draw_episodes(contenders[0].embeddings, target, settings)
    results = measure_contenders(contenders, drawn, target=target, settings=settings, match_shot=match_shot)
    results.left_out = left_out
    for rows in (results.rows, results.paired, results.confusion, results.calibration):
        rows.sort(key=lambda row: settings.shots.index(row.shot))
    return results


def method_name(model: str, backbone: Backbone, head: Head, settings: EpisodeSettings) -> str:
    """A model's name with its pooling, views and head, where these are not the paper's: `frozen depth turned ridge`."""
    read = (backbone.pooling.replace("cls", ""), backbone.views.replace("plain", ""))
    answered = "" if head == Prototypes(settings.prototype) else head.title
    return " ".join(filter(None, (model, *read, answered)))


def _on_common_images(contenders: Sequence[Contender]) -> list[Contender]:
    common = reduce(np.intersect1d, [contender.embeddings.indices for contender in contenders])
    if all(len(contender.embeddings) == len(common) for contender in contenders):
        return list(contenders)
    kept = {id(contender.embeddings): contender.embeddings.only(common) for contender in contenders}
    return [replace(contender, embeddings=kept[id(contender.embeddings)]) for contender in contenders]


def _heads(heads: Sequence[str | Head], settings: EpisodeSettings) -> list[Head]:
    """Heads by name, prototypes of the kind that was asked for, which stand first."""
    usual = Prototypes(settings.prototype)
    made = [head if isinstance(head, Head) else usual if head == usual.name else make_head(head) for head in heads]
    if not made or len(set(made)) < len(made):
        raise InputError(f"heads are {[head.title for head in made]}: give at least one, each once")
    return sorted(made, key=lambda head: head != usual)


def _check_request(
    backbone: Backbone,
    targets: Mapping[str, Domain],
    stored: list[tuple[str, AdapterInfo]],
    heads: Sequence[Head],
    settings: EpisodeSettings,
    match_shot: bool,
) -> None:
    if not targets:
        raise InputError("there is no target to evaluate on: give at least one")
    if backbone.adapter is not None:
        raise InputError("the backbone carries an adapter, so it is not frozen: detach it and give it as `adapters`")
    taken = {method_name(FROZEN, backbone, head, settings) for head in heads}
    seen: set[tuple[str, object]] = set()
    for name, info in stored:
        shot = info.shot
        if match_shot and shot is None:
            raise InputError(f"the adapter {name} does not say which shot it was trained for: leave out --match-shot")
        identity = (name, shot if match_shot else None)
        if name in taken or identity in seen:
            raise InputError(f"the name {name!r} is taken by another method: give the adapter its own, as NAME=PATH")
        seen.add(identity)
