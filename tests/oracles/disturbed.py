"""Adapters far enough from their start that forgetting one would show."""

from __future__ import annotations

from typing import Any

import torch

from cplsr.adapters.attach import attach
from cplsr.backbones.backbone import Backbone


def disturbed(backbone: Backbone, kind: str, **options: Any) -> Backbone:
    """The backbone with an adapter whose parameters are no longer what they begin with."""
    adapter = attach(backbone, kind, **options).adapter
    generator = torch.Generator().manual_seed(1)
    for parameter in adapter.parameters():  # type: ignore[union-attr]
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return backbone
