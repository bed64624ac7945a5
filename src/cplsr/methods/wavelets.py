"""The Haar transform of images and token grids: one low band and three high ones, each half as wide and high."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from cplsr.errors import InputError


def haar2d(
    values: Float[Tensor, "*batch height width"],
) -> tuple[Float[Tensor, "*batch height//2 width//2"], Float[Tensor, "*batch 3 height//2 width//2"]]:
    """Low band, and the three high ones: differences along a row, along a column, and along both.

    Every square of four values [[a, b], [c, d]] becomes (a + b + c + d)/2, (a − b + c − d)/2, (a + b − c − d)/2 and
    (a − b − c + d)/2: an orthogonal transform, which keeps lengths and turns white noise into white noise.
    """
    height, width = values.shape[-2:]
    if height % 2 or width % 2:
        raise InputError(f"a Haar transform halves both sides, {height} x {width} was given: pad it with pad_to_even")
    upper, lower = values[..., 0::2, :], values[..., 1::2, :]
    (a, b), (c, d) = ((row[..., 0::2], row[..., 1::2]) for row in (upper, lower))
    low = (a + b + c + d) / 2
    return low, torch.stack([a - b + c - d, a + b - c - d, a - b - c + d], dim=-3) / 2


def inverse_haar2d(
    low: Float[Tensor, "*batch height width"], high: Float[Tensor, "*batch 3 height width"]
) -> Float[Tensor, "*batch 2*height 2*width"]:
    """What `haar2d` was given, from its bands."""
    row, column, both = high.unbind(dim=-3)
    squares = torch.stack(
        [low + row + column + both, low - row + column - both, low + row - column - both, low - row - column + both],
        dim=-1,
    )
    squares = (squares / 2).unflatten(-1, (2, 2)).transpose(-3, -2)  # (..., height, 2, width, 2)
    return squares.flatten(-2).flatten(-3, -2)


def pad_to_even(values: Float[Tensor, "*batch height width"]) -> Float[Tensor, "*batch even_height even_width"]:
    """The last row and the last column once more where their number is odd.

    A repeated edge has no difference in it: padding adds nothing to the high bands, as zeros would.
    """
    if values.shape[-2] % 2:
        values = torch.cat([values, values[..., -1:, :]], dim=-2)
    if values.shape[-1] % 2:
        values = torch.cat([values, values[..., -1:]], dim=-1)
    return values
