"""From an update of the query and key projections to the coalescent projection nearest to it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cplsr.errors import InputError


class ClosedForm(NamedTuple):
    """C (d_k, d_k), or (heads, d_k, d_k), and per head the share of the update that no C can express."""

    C: Tensor
    residual: Tensor


def coalescent_from_update(
    W_q: Tensor,
    W_k: Tensor,
    dW_q: Tensor,
    dW_k: Tensor,
    *,
    b_q: Tensor | None = None,
    b_k: Tensor | None = None,
    db_q: Tensor | None = None,
    db_k: Tensor | None = None,
    heads: int | None = None,
) -> ClosedForm:
    """C = (I + W_q† ΔW_q)(I + W_k† ΔW_k)ᵀ, the closed form of Eq. 4 and the supplement, per head.

    Weights and biases are as `nn.Linear` stores them. They are those of one head, (d_k, D) and (d_k,); or of several,
    (heads, d_k, D); or, with `heads`, of a whole layer, (heads·d_k, D). Biases count as one more row of W, zero where
    one is not given.
    C is exact only if the new columns lie in the span of the old ones; it is the best approximation otherwise. (The
    derivation in the paper needs X†X = I, which fewer tokens than dimensions do not give.)

    Args:
        W_q: weight of the query projection.
        W_k: weight of the key projection.
        dW_q: what is added to `W_q`.
        dW_k: what is added to `W_k`.
        b_q: bias of the query projection.
        b_k: bias of the key projection.
        db_q: what is added to `b_q`.
        db_k: what is added to `b_k`.
        heads: how many heads the rows of the weights belong to, if they are those of a whole layer.

    Returns:
        C, and residual = ‖W_q C W_kᵀ − W̄_q W̄_kᵀ‖_F / ‖W̄_q W̄_kᵀ − W_q W_kᵀ‖_F with W̄ = W + ΔW: 0 when C does all of the
        update, 1 when it does none.

    Raises:
        InputError: the shapes do not fit each other.

    Example:
        >>> import torch
        >>> from cplsr import coalescent_from_update
        >>> W = torch.eye(3, 5)  # one head: d_k = 3, D = 5
        >>> C, residual = coalescent_from_update(W, W, W, torch.zeros(3, 5))  # the query projection is doubled
        >>> torch.allclose(C, 2 * torch.eye(3)), round(float(residual), 6)
        (True, 0.0)
    """
    weights, biases = [W_q, dW_q, W_k, dW_k], [b_q, db_q, b_k, db_k]
    if any(weight.shape != W_q.shape for weight in weights):
        shapes = ", ".join(str(tuple(weight.shape)) for weight in weights)
        raise InputError(f"the four weights have the shapes {shapes}; they must be alike")
    if any(bias is not None for bias in biases):
        weights = [_with_bias(weight, bias) for weight, bias in zip(weights, biases, strict=True)]
    q, dq, k, dk = (_per_head(weight, heads) for weight in weights)
    identity = torch.eye(q.shape[-1], dtype=q.dtype, device=q.device)
    C = (identity + torch.linalg.pinv(q) @ dq) @ (identity + torch.linalg.pinv(k) @ dk).mT
    residual = _residual(q @ k.mT, (q + dq) @ (k + dk).mT, q @ C @ k.mT)
    C = C.to(W_q.dtype)
    return ClosedForm(C[0], residual[0]) if heads is None and W_q.ndim == 2 else ClosedForm(C, residual)


def _residual(before: Tensor, wanted: Tensor, reached: Tensor) -> Tensor:
    """How much of a change is missing, as a share of it; none of no change."""
    missed, change = (torch.linalg.matrix_norm(wanted - matrix) for matrix in (reached, before))
    return torch.where(change > 0, missed / change.clamp_min(torch.finfo(change.dtype).tiny), torch.zeros_like(change))


def _with_bias(weight: Tensor, bias: Tensor | None) -> Tensor:
    """The bias as one more column; where there is none it is zero."""
    column = weight.new_zeros(weight.shape[:-1]) if bias is None else bias
    return torch.cat([weight, column.unsqueeze(-1)], dim=-1)


def _per_head(weight: Tensor, heads: int | None) -> Tensor:
    """One head's W as the paper writes it, (heads, D, d_k) in float64."""
    if weight.ndim == 2:
        count = heads or 1
        if weight.shape[0] % count:
            raise InputError(f"{count} heads do not divide the {weight.shape[0]} rows of the weight")
        weight = weight.reshape(count, -1, weight.shape[-1])
    return weight.mT.double()
