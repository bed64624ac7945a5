"""Putting an adapter on a backbone, taking it off, and folding it into the weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from cplsr.adapters.base import Adapter, Shape
from cplsr.adapters.kinds import make_adapter
from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError


def attach(backbone: Backbone, kind: str, **options: Any) -> Backbone:
    """Put a new adapter on a backbone, in place, and return the same backbone.

    From then on the trainable parameters of the backbone are exactly the adapter's.

    Args:
        backbone: the backbone to change; it must not carry an adapter yet.
        kind: `coalescent`, `attn_scale`, `soft_prompts`, `tokens`, `residual`, `lora`, `full`, `attention_temperature`,
            or one that another package brings.
        **options: the options of that kind: the arguments of its class in `cplsr.adapters`.

    Raises:
        InputError: the backbone carries an adapter already, or the kind or an option is not known.

    Example:
        >>> from cplsr import attach, load_backbone
        >>> backbone = attach(load_backbone("embedded"), "coalescent", sharing="shared")
        >>> sum(p.numel() for p in backbone.parameters() if p.requires_grad)  # 12 layers, one 64 x 64 matrix each
        49152
    """
    if backbone.adapter is not None:
        raise InputError(
            f"the backbone carries a {adapter_of(backbone).kind!r} adapter already, and takes only one: detach it first"
        )
    adapter = make_adapter(kind, Shape.of(backbone), options)
    adapter.install(backbone)
    number_format = torch.float64 if backbone.dtype == torch.float64 else torch.float32
    backbone.adapter = adapter.to(device=backbone.device, dtype=number_format)
    backbone.model.requires_grad_(False)
    adapter.requires_grad_(True)
    return backbone


def detach(backbone: Backbone) -> Backbone:
    """Take the adapter off a backbone, in place, and return it, as frozen as it was when it was loaded.

    Args:
        backbone: the backbone to change; if it carries no adapter, nothing happens.

    Example:
        >>> from cplsr import attach, detach, load_backbone
        >>> backbone = attach(load_backbone("embedded"), "residual")
        >>> any(p.requires_grad for p in detach(backbone).parameters())
        False
    """
    if backbone.adapter is not None:
        adapter_of(backbone).uninstall(backbone)
        backbone.adapter = None
        backbone.requires_grad_(False)
    return backbone


@contextmanager
def attached(backbone: Backbone, kind: str, options: Mapping[str, Any]) -> Iterator[Adapter]:
    """Put a new adapter on a backbone, as `attach` does, and take it off again at the end of the block."""
    attach(backbone, kind, **options)
    try:
        yield adapter_of(backbone)
    finally:
        detach(backbone)


def merge(backbone: Backbone) -> Backbone:
    """Make a copy of a backbone whose weights contain its adapter, so that the copy needs none.

    Args:
        backbone: a backbone with an adapter; it is left untouched.

    Returns:
        A new backbone that gives the same embeddings, up to rounding.

    Raises:
        InputError: there is no adapter, or one of a kind that no weights can express.

    Example:
        >>> from cplsr import attach, load_backbone, merge
        >>> backbone = attach(load_backbone("embedded"), "coalescent", init="near_identity")
        >>> merged = merge(backbone)
        >>> merged.adapter is None, merged.fingerprint == backbone.fingerprint
        (True, False)
    """
    if backbone.adapter is None:
        raise InputError("there is no adapter on the backbone to merge: attach or load one first")
    merged = copy.deepcopy(backbone)
    with torch.no_grad():
        adapter_of(merged).fold(merged)
    detach(merged)
    merged.fingerprint = merged.weights_fingerprint()
    return merged


def adapter_of(backbone: Backbone) -> Adapter:
    """Return the adapter that a backbone carries; it must carry one."""
    if not isinstance(backbone.adapter, Adapter):
        raise InputError("there is no adapter on the backbone: attach or load one first")
    return backbone.adapter
