"""Gradient ascent on inputs: images moved to where a loss is higher, the network left alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

LEVELS = 255
"""Steps from black to white in a pixel: the unit of a rate that a user gives."""


def ascend(
    inputs: Float[Tensor, "batch *shape"],
    loss: Callable[[Tensor], Tensor],
    *,
    steps: int,
    rate: float | Tensor,
) -> Float[Tensor, "batch *shape"]:
    """Move x ← x + rate · `direction`(∂loss/∂x) `steps` times; no gradient flows into the result or parameters."""
    moved = inputs.detach()
    for _ in range(steps):
        moved.requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(loss(moved), moved)
        moved = (moved.detach() + rate * direction(gradient)).detach()
    return moved


def direction(gradient: Float[Tensor, "batch *shape"]) -> Float[Tensor, "batch *shape"]:
    """Each input's gradient scaled to a root mean square of one; a gradient of zero stays zero.

    Images that are told apart well have tiny gradients under a cosine head with a temperature, those near a boundary
    large ones: scaled one by one, a step moves every image equally far.
    """
    rows = gradient.flatten(1)
    # By the largest entry first, since the squares of small numbers vanish.
    rows = rows / _or_one(rows.abs().amax(dim=1, keepdim=True))
    rows = rows / _or_one(rows.square().mean(dim=1, keepdim=True).sqrt())
    return rows.view_as(gradient)


def pixel_rate(levels: float, std: tuple[float, float, float]) -> Float[Tensor, "3 1 1"]:
    """A rate in pixel levels (0 to 255) as one for images that were divided by the channels' `std`."""
    return levels / LEVELS / torch.tensor(std).view(3, 1, 1)


def _or_one(sizes: Tensor) -> Tensor:
    return torch.where(sizes > 0, sizes, 1)
