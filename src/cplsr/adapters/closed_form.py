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
    (heads, d_k, D); or, with `heads`, of a whole layer, (heads·d_k, D). Biases count as one more row of W.
    C is exact only if the new columns lie in the span of the old ones; it is the best approximation otherwise. (The
    derivation in the paper needs X†X = I, which fewer tokens than dimensions do not give.)

    Args:
        W_q: weight of the query projection.
        W_k: weight of the key projection.
        dW_q: what is added to `W_q`.
        dW_k: what is added to `W_k`.
        b_q: bias of the query projection, if it has one.
        b_k: bias of the key projection, if it has one.
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
    single = heads is None and W_q.ndim == 2
    q, dq = _with_bias(W_q, b_q, heads), _with_bias(dW_q, db_q, heads)
    k, dk = _with_bias(W_k, b_k, heads), _with_bias(dW_k, db_k, heads)
    q, dq = _same_rows(q, dq)
    k, dk = _same_rows(k, dk)
    if q.shape[-2] != k.shape[-2]:
        extra_q, extra_k = max(0, k.shape[-2] - q.shape[-2]), max(0, q.shape[-2] - k.shape[-2])
        q, dq = _add_rows(q, extra_q), _add_rows(dq, extra_q)
        k, dk = _add_rows(k, extra_k), _add_rows(dk, extra_k)
    if not q.shape == dq.shape == k.shape == dk.shape:
        shapes = ", ".join(str(tuple(t.shape)) for t in (W_q, W_k, dW_q, dW_k))
        raise InputError(f"the four weights have the shapes {shapes}; they must be alike")
    identity = torch.eye(q.shape[-1], dtype=q.dtype, device=q.device)
    left = identity + torch.linalg.pinv(q) @ dq
    right = identity + torch.linalg.pinv(k) @ dk
    C = left @ right.mT
    wanted = (q + dq) @ (k + dk).mT
    missed = torch.linalg.matrix_norm(q @ C @ k.mT - wanted)
    change = torch.linalg.matrix_norm(wanted - q @ k.mT)
    residual = torch.where(change > 0, missed / change.clamp_min(torch.finfo(q.dtype).tiny), torch.zeros_like(change))
    C = C.to(W_q.dtype)
    return ClosedForm(C[0], residual[0]) if single else ClosedForm(C, residual)


def _with_bias(weight: Tensor, bias: Tensor | None, heads: int | None) -> Tensor:
    """One head's W as the paper writes it, (heads, D, d_k) in float64, the bias as a last row."""
    rows = weight if bias is None else torch.cat([weight, bias.unsqueeze(-1)], dim=-1)
    if rows.ndim == 2:
        count = heads or 1
        if rows.shape[0] % count:
            raise InputError(f"{count} heads do not divide the {rows.shape[0]} rows of the weight")
        rows = rows.reshape(count, -1, rows.shape[-1])
    return rows.mT.double()


def _same_rows(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """A weight without a bias and an update with one (or the reverse): the missing bias is zero."""
    return _add_rows(a, max(0, b.shape[-2] - a.shape[-2])), _add_rows(b, max(0, a.shape[-2] - b.shape[-2]))


def _add_rows(matrix: Tensor, count: int) -> Tensor:
    if count not in (0, 1):
        raise InputError("weights and updates differ in width; they must be alike")
    return torch.nn.functional.pad(matrix, (0, 0, 0, count))
