"""X W_q C: the product of a query projection and a coalescent projection, in the cheapest exact order.

Weights are as `nn.Linear` stores them, (out, in), with the heads as blocks of `head_dim` rows, so W_q C for head h is
C_hᵀ W_h there. All orders give the same numbers; they differ in cost (T tokens, D wide, H heads of d_k):

- on the weights: no work per token, but plain autograd then forms a full dW, 2 T D² operations;
- on the tokens: three products of 2 T D d_k operations, one forward and two backward;
- folded with its own backward: forward on the weights, and dC = C⁻ᵀ (Qᵀ dQ) per head from the query itself, one
  product of 2 T D d_k. It needs a well-conditioned C, because Q C⁻¹ is recovered by a solve.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

# The error of the recovered gradient grows with cond(C): about 2e-6 relative at 1e2 in float32, 1e-5 at 1e3.
LARGEST_CONDITION = 1e2


def fold(
    weight: Float[Tensor, "out in"], bias: Float[Tensor, "out"] | None, C: Float[Tensor, "heads head_dim head_dim"]
) -> tuple[Float[Tensor, "out in"], Float[Tensor, "out"] | None]:
    """W_q C and b_q C: the query projection that gives X W_q C in one product (Eq. 3)."""
    return _multiply_rows(weight, C), None if bias is None else _multiply_rows(bias, C)


def _multiply_rows(rows: Float[Tensor, "out *in"], C: Float[Tensor, "heads head_dim head_dim"]) -> Tensor:
    """C_hᵀ times the block of rows of every head h, computed in the wider of the two number formats."""
    wide = rows.to(C.dtype) if rows.element_size() < C.element_size() else rows
    return (C.transpose(1, 2) @ wide.reshape(*C.shape[:2], -1)).reshape(rows.shape).to(rows.dtype)


def multiply_tokens(
    query: Float[Tensor, "batch rows out"], C: Float[Tensor, "heads head_dim head_dim"]
) -> Float[Tensor, "batch rows out"]:
    """Q C for every head of a query whose heads stand side by side."""
    heads, head_dim, _ = C.shape
    split = query.unflatten(-1, (heads, head_dim)).transpose(1, 2)  # (batch, heads, rows, head_dim)
    return (split @ C.to(query.dtype)).transpose(1, 2).flatten(2)


class QueryProjection:
    """X W_q C for some batches: all of it that does not depend on X is computed once, when this is made.

    `folded` carries no gradient; `inverse` is C⁻¹ where C trains and is well conditioned, else `None`.
    """

    def __init__(
        self,
        weight: Float[Tensor, "out in"],
        bias: Float[Tensor, "out"] | None,
        C: Float[Tensor, "heads head_dim head_dim"],
    ) -> None:
        self.weight, self.bias, self.C = weight, bias, C
        self.folded = fold(weight, bias, C.detach())
        trains = torch.is_grad_enabled() and C.requires_grad
        self.inverse = _inverse_if_well_conditioned(C.detach()) if trains else None

    def __call__(self, x: Float[Tensor, "batch rows in"]) -> Float[Tensor, "batch rows out"]:
        """X W_q C + b_q C by the cheapest order that is exact here: see the module's text."""
        if not (torch.is_grad_enabled() and self.C.requires_grad):
            return linear(x, *self.folded)
        if self.inverse is not None:
            return _FoldedProjection.apply(x, self.C, *self.folded, self.inverse)
        if self.C.shape[0] > 3:
            return multiply_tokens(linear(x, self.weight, self.bias), self.C)
        return linear(x, *fold(self.weight, self.bias, self.C))


def _inverse_if_well_conditioned(C: Tensor) -> Tensor | None:
    """C⁻¹, or `None` where some head's ‖C‖·‖C⁻¹‖ in the Frobenius norm, a bound of the condition, is too large."""
    inverse, failed = torch.linalg.inv_ex(C)
    # Both norms of the identity are √d_k, so that the product is divided by d_k to be 1 at best.
    condition = torch.linalg.matrix_norm(C) * torch.linalg.matrix_norm(inverse) / C.shape[-1]
    fine = (failed == 0).all() & (condition <= LARGEST_CONDITION).all()  # nan compares false
    return inverse if bool(fine) else None


class _FoldedProjection(torch.autograd.Function):
    """Forward with the folded weight; backward from the saved query, which the attention keeps anyway."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, C: Tensor, folded: Tensor, bias: Tensor | None, inverse: Tensor) -> Tensor:
        query = linear(x, folded, bias)
        ctx.save_for_backward(query, folded, inverse)
        return query

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, None, None, None]:
        query, folded, inverse = ctx.saved_tensors
        heads, head_dim, _ = inverse.shape
        per_head = (-1, heads, head_dim)
        q = query.reshape(per_head).permute(1, 2, 0)  # (heads, head_dim, tokens)
        dq = grad.reshape(per_head).transpose(0, 1)  # (heads, tokens, head_dim)
        dC = inverse.transpose(1, 2) @ (q @ dq).to(inverse.dtype)
        dx = grad @ folded if ctx.needs_input_grad[0] else None
        return dx, dC, None, None, None
