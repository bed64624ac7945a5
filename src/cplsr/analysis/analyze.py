"""What an adapter changed: every measure of this package on some domains, before and after."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from numpy import ndarray
from torch import Tensor

from cplsr.adapters.attach import adapter_of
from cplsr.adapters.coalescent import Coalescent
from cplsr.adapters.store import read_adapter_info
from cplsr.analysis.attention import AttentionEntropy, attention_entropy, cls_attention
from cplsr.analysis.attention_view import attention_picture
from cplsr.analysis.bound import (
    NOT_ESTIMATED,
    PROXY_FOLDS,
    PROXY_IMAGES,
    bound_terms,
    proxy_distance,
    unit_moments,
    within_between,
)
from cplsr.analysis.cost import cost_rows
from cplsr.analysis.drift import drift
from cplsr.analysis.spectra import head_changes
from cplsr.analysis.umap_view import make_panel, require_umap
from cplsr.data.decode import decode
from cplsr.environment import installed_version, versions
from cplsr.errors import InputError
from cplsr.evaluation.cache import EmbeddingCache
from cplsr.evaluation.embed import Embeddings, embed_domain, stored_adapter
from cplsr.evaluation.provenance import other_than_trained
from cplsr.progress import progress_bar
from cplsr.records.adapter import AdapterInfo
from cplsr.records.analysis import (
    ATTENTION,
    UMAP,
    Analysis,
    AnalyzedAdapter,
    AttentionPicture,
    DomainAnalysis,
    HeadChange,
    Measures,
    Panel,
    Stage,
)
from cplsr.reservation.moments import choose_statistics_images
from cplsr.settings.analysis import AnalysisSettings

if TYPE_CHECKING:
    from cplsr.backbones.backbone import Backbone
    from cplsr.data.domain import Domain


@dataclass(frozen=True, eq=False)
class _Seen:
    """What a backbone made of one domain; `maps` are of the last layer, for the pictures."""

    embeddings: Embeddings
    entropy: AttentionEntropy
    maps: Float[Tensor, "pictures heads side side"] | None


Sample = tuple[UInt8[Tensor, "images 3 size size"], tuple[str, ...]]
"""A few images of a domain for everything about attention, spread over its classes, and their names."""

Stages = dict[Stage, dict[str, _Seen]]
"""What was seen of every domain, before adapting and after."""


def analyze(
    backbone: Backbone,
    adapter_source: str | Path | None,
    domains: Mapping[str, Domain],
    base: Domain | None = None,
    settings: AnalysisSettings = AnalysisSettings(),  # noqa: B008 (frozen)
    *,
    adapter_name: str | None = None,
    cache: EmbeddingCache | None = None,
    batch_size: int = 64,
    workers: int | None = None,
    strict: bool = False,
) -> Analysis:
    """Measure the frozen backbone, and a stored adapter on it, on target domains and on the base domain.

    Args:
        backbone: a backbone without an adapter.
        adapter_source: where the adapter is stored; `None` looks at the frozen backbone alone.
        domains: target domains by the name they get in the results.
        base: the domain of training; it is measured too, and the distance of every target from it.
        settings: which images are looked at, and what else is measured.
        adapter_name: what the adapter is called; the name of its folder where none is given.
        cache: where embeddings are looked up and kept; `None` keeps none.
        batch_size: images that are embedded together.
        workers: processes that read images; `None` takes as many as there are cores.
        strict: whether an image that cannot be read is an error.

    Raises:
        InputError: there is nothing to look at, or too little of it.
    """
    if not domains and base is None:
        raise InputError("there is no domain to analyze: give at least one target or the base domain")
    if backbone.adapter is not None:
        raise InputError("the backbone carries an adapter, so it is not frozen: detach it and give where it is stored")
    if settings.umap:
        require_umap()
    stored = None if adapter_source is None else read_adapter_info(adapter_source)
    chosen, base_name = _choose(domains, base, settings)
    samples = {name: _sample(domain, backbone.image_size, settings) for name, domain in chosen.items()}
    embed = partial(embed_domain, backbone, batch_size=batch_size, workers=workers, strict=strict, cache=cache)
    look = partial(_look, backbone, chosen, samples, settings, embed)
    seen, adapter, heads = _before_and_after(backbone, stored, adapter_name, look)
    notes = [NOT_ESTIMATED, *_adapter_notes(backbone, stored, settings.cost)]
    notes += _use_same_images(chosen, seen, settings.way)
    return Analysis(
        backbone=backbone.description(),
        adapter=adapter,
        versions=versions(),
        settings=_described(settings, chosen, base_name),
        domains={name: _measure_domain(name, seen, base_name, settings) for name in chosen},
        heads=heads,
        cost=cost_rows(backbone) if settings.cost else (),
        umap=UMAP if settings.umap else None,
        panels=_panels(seen) if settings.umap else (),
        attention=_pictures(samples, seen),
        notes=tuple(notes),
    )


def _look(
    backbone: Backbone,
    chosen: Mapping[str, Domain],
    samples: Mapping[str, Sample],
    settings: AnalysisSettings,
    embed: Callable[[Domain], Embeddings],
) -> dict[str, _Seen]:
    """Embeddings and attention of every domain, with what is on the backbone."""
    seen = {}
    with progress_bar(len(chosen), "looking at attention", unit="domain") as bar:
        for name, domain in chosen.items():
            embeddings, (pixels, _), pictures = embed(domain), samples[name], settings.attention_images
            entropy = attention_entropy(backbone, pixels[: settings.entropy_images])
            seen[name] = _Seen(embeddings, entropy, cls_attention(backbone, pixels[:pictures]) if pictures else None)
            bar.update()
    return seen


def _described(settings: AnalysisSettings, chosen: Mapping[str, Domain], base_name: str | None) -> dict[str, Any]:
    """All that decides the figures, for analysis.json."""
    data = {
        name: {"name": domain.name, "classes": len(domain.classes), "fingerprint": domain.fingerprint}
        for name, domain in chosen.items()
    }
    proxy = {"proxy_images": PROXY_IMAGES, "proxy_folds": PROXY_FOLDS}
    return {**asdict(settings), **proxy, "base": base_name, "data": data}


def _choose(
    domains: Mapping[str, Domain], base: Domain | None, settings: AnalysisSettings
) -> tuple[dict[str, Domain], str | None]:
    """The images to look at, the base domain's first, and its name."""
    named = dict(domains)
    base_name = None
    if base is not None:
        base_name = f"{base.name} (base)" if base.name in domains else base.name
        named = {base_name: base, **domains}
    chosen = {}
    for name, domain in named.items():
        generator = torch.Generator().manual_seed(settings.seed)
        rows = choose_statistics_images(torch.tensor(domain.labels), settings.images_per_class, generator=generator)
        chosen[name] = domain.select(rows.numpy()).without_empty_classes()
    return chosen, base_name


def _sample(domain: Domain, size: int, settings: AnalysisSettings) -> Sample:
    count = max(settings.entropy_images, settings.attention_images)
    indices = one_class_after_another(domain.labels, settings.seed)[:count]
    batches = list(decode(domain, size, indices=indices, workers=0, description=f"reading {domain.name}"))
    if not any(len(batch.indices) for batch in batches):
        raise InputError(f"none of {len(indices)} images of {domain.name} can be read: see `cplsr data doctor`")
    names = tuple(domain.image_name(int(index)) for batch in batches for index in batch.indices)
    return torch.cat([batch.pixels for batch in batches]), names


def one_class_after_another(labels: Int64[ndarray, "images"], seed: int) -> Int64[ndarray, "images"]:
    """All positions in a random order that takes one image of each class before a second of any."""
    order = np.random.default_rng(seed).permutation(len(labels))
    turn = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        members = np.flatnonzero(labels[order] == label)
        turn[members] = np.arange(len(members))
    return order[np.argsort(turn, kind="stable")]


def _before_and_after(
    backbone: Backbone, stored: AdapterInfo | None, name: str | None, look: Callable[[], dict[str, _Seen]]
) -> tuple[Stages, AnalyzedAdapter | None, tuple[HeadChange, ...]]:
    """Look with the frozen backbone, then with the adapter on, and at the adapter itself; it is taken off again."""
    seen: Stages = {"before": look()}
    if stored is None:
        return seen, None, ()
    with stored_adapter(backbone, stored):
        adapter = adapter_of(backbone)
        about = AnalyzedAdapter(
            name=name or stored.folder.name,
            kind=stored.kind,
            fingerprint=adapter.fingerprint,
            parameters=sum(parameter.numel() for parameter in adapter.parameters()),
        )
        heads = head_changes(adapter) if isinstance(adapter, Coalescent) else ()
        seen["after"] = look()
    # The entropy of the class token, averaged over the domains.
    before, after = (torch.stack([own.entropy.cls for own in by_name.values()]).mean(0) for by_name in seen.values())
    change = after - before
    return seen, about, tuple(replace(head, entropy_change=change[head.layer, head.head].item()) for head in heads)


def _use_same_images(chosen: Mapping[str, Domain], seen: Stages, way: int) -> list[str]:
    """Leave out of `seen` what one stage lacks, and classes with a single image; returns remarks on the data."""
    notes = []
    for name, domain in chosen.items():
        common = reduce(np.intersect1d, [by_name[name].embeddings.indices for by_name in seen.values()])
        labels = domain.labels[common]
        counts = np.bincount(labels, minlength=len(domain.classes))
        common = common[counts[labels] > 1]
        for by_name in seen.values():
            by_name[name] = replace(by_name[name], embeddings=by_name[name].embeddings.only(common))
        if (classes := int((counts > 1).sum())) < max(way, 2):
            raise InputError(f"{name} has {classes} classes with two images or more, fewer than way {way}: lower --way")
        notes += [f"{name}: {flag}" for flag in domain.flags]
        left_out = [domain.classes[label] for label in np.flatnonzero(counts <= 1)]
        notes += [f"{name}: class {c} was left out, because a spread needs at least 2 images" for c in left_out]
        if failed := len(domain) - int(counts.sum()):
            notes.append(f"{name}: {failed} images could not be read and were left out")
    return notes


def _measure_domain(name: str, seen: Stages, base_name: str | None, settings: AnalysisSettings) -> DomainAnalysis:
    def measures(stage: Stage) -> Measures:
        own = seen[stage][name]
        moments = unit_moments(own.embeddings.vectors, own.embeddings.labels)
        proxy = None
        if base_name is not None and name != base_name:
            base_vectors = seen[stage][base_name].embeddings.vectors
            proxy = proxy_distance(base_vectors, own.embeddings.vectors, seed=settings.seed)
        return Measures(
            within_between=within_between(moments),
            bound={shot: bound_terms(moments, shot=shot, way=settings.way) for shot in settings.shots},
            proxy_distance=proxy,
            attention_entropy=own.entropy.cls.tolist(),
            attention_entropy_rows=own.entropy.rows.tolist(),
        )

    vectors = {stage: by_name[name].embeddings.vectors for stage, by_name in seen.items()}
    images = len(vectors["before"])
    if "after" not in vectors:
        return DomainAnalysis(images, measures("before"), None)
    return DomainAnalysis(images, measures("before"), measures("after"), drift(vectors["before"], vectors["after"]))


def _panels(seen: Stages) -> tuple[Panel, ...]:
    panels = []
    with progress_bar(len(seen) * len(seen["before"]), "UMAP", unit="panel") as bar:
        for name in seen["before"]:
            for stage, by_name in seen.items():
                own = by_name[name].embeddings
                panels.append(make_panel(name, stage, own.classes, own.vectors, own.labels))
                bar.update()
    return tuple(panels)


def _pictures(samples: Mapping[str, Sample], seen: Stages) -> tuple[AttentionPicture, ...]:
    pictures = []
    for (domain, (pixels, names)), stem in zip(samples.items(), file_stems(list(samples)), strict=True):
        maps = [stage for by_name in seen.values() if (stage := by_name[domain].maps) is not None]
        for number, tiles in enumerate(zip(*maps, strict=True)):
            stream = io.BytesIO()
            attention_picture(pixels[number], *tiles).save(stream, "PNG")
            file = f"{ATTENTION}/{stem}-{number}.png"
            pictures.append(AttentionPicture(domain, names[number], file, stream.getvalue()))
    return tuple(pictures)


def file_stems(names: list[str]) -> list[str]:
    """Names as parts of file names on any system: other letters become `_`, and equal ones get a number."""
    stems: list[str] = []
    for name in names:
        plain = re.sub(r"[^a-z0-9_-]+", "_", name.lower()).strip("_") or "domain"
        stem, number = plain, 1
        while stem in stems:
            number += 1
            stem = f"{plain}_{number}"
        stems.append(stem)
    return stems


def _adapter_notes(backbone: Backbone, stored: AdapterInfo | None, cost: bool) -> list[str]:
    """Where the adapter is looked at otherwise than it was trained, and what else the figures do not say themselves."""
    notes = []
    if stored is not None:
        notes += other_than_trained("the adapter", stored, backbone, "analyzed")
        if stored.kind == "soft_prompts":
            notes.append("with prompts every row of attention is longer, and its entropy larger for that reason alone")
    if cost and installed_version("matplotlib") is None:
        notes.append("the cost curves were not drawn: matplotlib is missing (pip install 'cplsr[viz]')")
    return notes
