"""AttnScale: a learnable factor for every pair of tokens (Basu et al., AAAI 2024)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from cplsr.adapters.base import Adapter, Shape
from cplsr.adapters.residual import Residual
from cplsr.errors import InputError


class AttnScale(Adapter):
    """softmax(A ⊙ Q Kᵀ / √d_k) V with A (heads, tokens, tokens) in every layer, all ones at the start.

    The size of A fixes the number of tokens, hence the image size.

    Args:
        residual: also learn the vectors of the domain residual adapter, as AttnScale's authors do; the paper does not.
    """

    kind: ClassVar[str] = "attn_scale"

    def __init__(self, shape: Shape, *, residual: bool = False) -> None:
        super().__init__()
        self.A = nn.ParameterList(torch.ones(shape.heads, shape.tokens, shape.tokens) for _ in range(shape.layers))
        self.residual = Residual(shape) if residual else None

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Scale the scores before the softmax; with fewer queries by the first rows of A, with fewer keys the last."""
        A, rows, tokens = self.A[layer], queries.shape[-2], keys.shape[-2]
        if tokens > A.shape[-1]:
            raise InputError(
                f"attn_scale has factors for {A.shape[-1]} tokens, but {tokens} are in block {layer}: more tokens, and "
                "methods that add some, take another kind of adapter"
            )
        factor = A[:, :rows, A.shape[-1] - tokens :].to(queries.dtype) * queries.shape[-1] ** -0.5
        scores = (queries @ keys.transpose(-1, -2)) * factor
        return scores.softmax(dim=-1) @ values

    def attention_branch(self, layer: int, y: Tensor) -> Tensor:
        """The residual vector of the attention branch, if asked for."""
        return y if self.residual is None else self.residual.attention_branch(layer, y)

    def mlp_branch(self, layer: int, y: Tensor) -> Tensor:
        """The residual vector of the MLP branch, if asked for."""
        return y if self.residual is None else self.residual.mlp_branch(layer, y)
