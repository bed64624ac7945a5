"""What the figures of an evaluation depend on: settings, data, and remarks that belong beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cplsr.backbones.backbone import Backbone
from cplsr.data.domain import Domain
from cplsr.episodes.heads import Head
from cplsr.episodes.prototypes import TEMPERATURE
from cplsr.evaluation.embed import Embeddings
from cplsr.evaluation.intervals import Z95
from cplsr.records.adapter import AdapterInfo
from cplsr.records.results import EvaluationSettings, TargetData
from cplsr.settings.episodes import EpisodeSettings


def other_than_trained(name: str, info: AdapterInfo, backbone: Backbone, done: str) -> list[str]:
    """Say where an adapter is used otherwise than it was trained: `done` is what is done with it."""
    settings = {"image_size": "image size", "pooling": "pooling", "fingerprint": "backbone"}
    pairs = [(what, info.backbone.get(setting), getattr(backbone, setting)) for setting, what in settings.items()]
    return [
        f"{name} was trained with another {what} than it is {done} with: {trained}, not {used}"
        for what, trained, used in pairs
        if trained not in (None, used)
    ]


def describe_settings(
    backbone: Backbone,
    stored: list[tuple[str, AdapterInfo]],
    heads: Sequence[Head],
    settings: EpisodeSettings,
    match_shot: bool,
) -> EvaluationSettings:
    """Backbone, adapters and episodes."""
    return {
        "backbone": backbone.description(),
        "adapters": [
            {"name": name, "source": str(info.folder), "kind": info.kind, "options": info.options,
             "fingerprint": info.fingerprint, "train_shot": info.shot}
            for name, info in stored
        ],
        "heads": [head.description() for head in heads],
        "shots": list(settings.shots),
        "way": settings.way,
        "query": settings.query,
        "episodes": settings.episodes,
        "queries": settings.queries[0] if len(settings.queries) == 1 else list(settings.queries),
        "seed": settings.seed,
        "match_shot": match_shot,
        "prototype": settings.prototype,
        "temperature": TEMPERATURE,
        "interval": f"{Z95} * sample standard deviation / sqrt(episodes)",
    }  # fmt: skip


def describe_data(domain: Domain, embeddings: Embeddings) -> TargetData:
    """How many images of each class took part, and which were left out."""
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


def data_flags(domain: Domain, embeddings: Embeddings, left_out: list[str]) -> list[str]:
    """Remarks that belong beside every figure measured on the domain."""
    flags = list(domain.flags)
    if embeddings.failed:
        flags.append(f"{len(embeddings.failed)} images could not be read and were left out")
    flags += [f"{what} was left out: too few images for an episode" for what in left_out]
    return flags
