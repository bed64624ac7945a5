"""Putting an adapter on a backbone, taking it off, and folding it into the weights."""

from __future__ import annotations

import copy
from typing import Any

import torch

from cplsr.adapters.base import Adapter, Shape
from cplsr.adapters.kinds import make_adapter
from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError


def attach(backbone: Backbone, kind: str, **options: Any) -> Backbone:
    """Put a new adapter on `backbone`, in place; from then on the trainable parameters are exactly the adapter's.

    kind: `coalescent`, `attn_scale`, `soft_prompts`, `residual`, `lora` or `full`; its options are
    those of the class of that name in `cplsr.adapters`.
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
    """Take the adapter off, in place; the backbone is frozen as before. Without an adapter nothing happens."""
    if backbone.adapter is not None:
        adapter_of(backbone).uninstall(backbone)
        backbone.adapter = None
        backbone.requires_grad_(False)
    return backbone


def merge(backbone: Backbone) -> Backbone:
    """A new backbone with the adapter folded into its weights and none attached; the old one is left untouched."""
    if backbone.adapter is None:
        raise InputError("there is no adapter on the backbone to merge: attach or load one first")
    merged = copy.deepcopy(backbone)
    with torch.no_grad():
        adapter_of(merged).fold(merged)
    detach(merged)
    merged.fingerprint = merged.weights_fingerprint()
    return merged


def adapter_of(backbone: Backbone) -> Adapter:
    """The adapter on a backbone; an error where there is none."""
    if not isinstance(backbone.adapter, Adapter):
        raise InputError("there is no adapter on the backbone: attach or load one first")
    return backbone.adapter
