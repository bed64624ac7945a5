"""Residual vectors, the domain residual adapter (DRA)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from cplsr.adapters.base import Adapter, Shape
from cplsr.backbones.backbone import Backbone
from cplsr.backbones.families import mlp_output
from cplsr.errors import InputError


class Residual(Adapter):
    """A vector added to the attention branch and one to the MLP branch of every block, zero at the start.

    They are added before LayerScale where there is one, so that folding them into the branch's last bias is exact.
    """

    kind: ClassVar[str] = "residual"

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.vectors = nn.ModuleList(
            nn.ParameterDict({"attention": torch.zeros(shape.dim), "mlp": torch.zeros(shape.dim)})
            for _ in range(shape.layers)
        )

    def attention_branch(self, layer: int, y: Tensor) -> Tensor:
        """Add the layer's first vector."""
        return y + self._vector(layer, "attention").to(y.dtype)

    def mlp_branch(self, layer: int, y: Tensor) -> Tensor:
        """Add the layer's second vector."""
        return y + self._vector(layer, "mlp").to(y.dtype)

    def fold(self, backbone: Backbone) -> None:
        """Add the vectors to the biases of the attention's output projection and of the MLP's last layer."""
        for layer, block in enumerate(backbone.blocks):
            for name, linear in (("attention", block.attention.o_proj), ("mlp", mlp_output(block.mlp))):
                target: Any = linear
                if target.bias is None:
                    raise InputError(
                        f"block {layer} of {backbone.source!r} has no bias in its {name} branch to fold the vector into"
                    )
                target.bias.data = (target.bias + self._vector(layer, name)).to(target.bias.dtype).detach()

    def _vector(self, layer: int, name: str) -> Tensor:
        vectors: Any = self.vectors[layer]
        return vectors[name]
