"""Soft prompts: learnable tokens in every layer."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from cplsr.adapters.base import Adapter, Shape, seeded
from cplsr.declared import between
from cplsr.settings.numbers import Seed


class SoftPrompts(Adapter):
    """`length` learnable tokens put into every layer before its first norm, normal with std 1/√d at the start.

    They stand between the class token and the rest, so that the class token stays first and the patches last. Attention
    does not depend on the order of tokens but for rotary positions, which only the patches have.

    Args:
        length: how many tokens each layer learns.
        mode: `accumulate`, where every layer adds `length` tokens as in the paper's text, or `replace`, where each
            layer puts its own in the place of the last layer's.
        seed: of the start values.
    """

    kind: ClassVar[str] = "soft_prompts"

    def __init__(
        self,
        shape: Shape,
        *,
        length: Annotated[int, between(1, 10_000)] = 2,
        mode: Literal["accumulate", "replace"] = "accumulate",
        seed: Seed = 0,
    ) -> None:
        super().__init__()
        self.length, self.replace = length, mode == "replace"
        generator = seeded(seed)
        self.prompts = nn.ParameterList(
            torch.randn(length, shape.dim, generator=generator) * shape.dim**-0.5 for _ in range(shape.layers)
        )

    def enter(self, layer: int, tokens: Tensor) -> Tensor:
        """Insert the layer's prompts after the class token."""
        prompts = self.prompts[layer].to(tokens.dtype).expand(tokens.shape[0], -1, -1)
        drop = self.length if self.replace and layer > 0 else 0
        return torch.cat([tokens[:, :1], prompts, tokens[:, 1 + drop :]], dim=1)
