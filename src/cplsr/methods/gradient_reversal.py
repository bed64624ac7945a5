"""Gradient reversal: forward the identity, backward a change of sign, so that what lies before it does the opposite."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


class _Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, strength: float) -> Tensor:
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return -ctx.strength * gradient, None


def reverse_gradient(x: Float[Tensor, "*shape"], strength: float = 1.0) -> Float[Tensor, "*shape"]:
    """`x` itself; its gradient is multiplied by −`strength` (Ganin & Lempitsky, ICML 2015).

    Whatever minimizes a loss behind it is trained against whatever produced `x`: both with one backward pass.
    """
    return _Reversal.apply(x, strength)
