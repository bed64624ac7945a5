"""What training made of the coalescent projections: how far each C is from the identity, and in which way."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from cplsr.adapters.coalescent import Coalescent
from cplsr.records.analysis import HeadChange


def head_change(C: Float[Tensor, "head_dim head_dim"], layer: int, head: int) -> HeadChange:
    """Measure one C, in float64."""
    C = C.detach().double().cpu()
    singular = torch.linalg.svdvals(C)  # descending
    identity = torch.eye(len(C), dtype=C.dtype)
    return HeadChange(
        layer=layer,
        head=head,
        distance=torch.linalg.matrix_norm(C - identity).item(),
        singular_min=singular[-1].item(),
        singular_max=singular[0].item(),
        condition=_over(singular[0].item(), singular[-1].item()),
        asymmetry=_asymmetry(C),
    )


def head_changes(adapter: Coalescent) -> tuple[HeadChange, ...]:
    """Every head that has a C, the most changed first; heads that share one C are listed one by one."""
    changes = [
        head_change(C, layer, head)
        for layer, matrices in adapter.projections().items()
        for head, C in enumerate(matrices.expand(adapter.heads, -1, -1))
    ]
    return tuple(sorted(changes, key=lambda change: (-change.distance, change.layer, change.head)))


def _asymmetry(C: Float[Tensor, "head_dim head_dim"]) -> float:
    difference = torch.linalg.matrix_norm(C - C.mT).item()
    return 0.0 if difference == 0 else _over(difference, torch.linalg.matrix_norm(C + C.mT).item())


def _over(above: float, below: float) -> float:
    return above / below if below > 0 else math.inf
