"""Small pieces of images, cut at random places and brought back to the images' own size."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

RATIO = 4 / 3
"""A piece is at most this many times as wide as high, or as high as wide."""


def crop_boxes(count: int, share: tuple[float, float], generator: torch.Generator) -> Float[Tensor, "count 4"]:
    """Top, left, height and width of random pieces, as shares of an image's sides.

    The area is uniform in `share`, the logarithm of width by height uniform up to that of `RATIO`, the place uniform.
    """
    draws = torch.rand(4, count, generator=generator)
    area = share[0] + (share[1] - share[0]) * draws[0]
    stretch = torch.exp(math.log(RATIO) * (2 * draws[1] - 1))
    height, width = ((area * factor).sqrt().clamp(max=1) for factor in (1 / stretch, stretch))
    return torch.stack([draws[2] * (1 - height), draws[3] * (1 - width), height, width], dim=1)


def cut(
    images: Float[Tensor, "batch 3 rows columns"], boxes: Float[Tensor, "batch 4"]
) -> Float[Tensor, "batch 3 rows columns"]:
    """One piece of each image, enlarged to the image's size with bilinear weights."""
    top, left, height, width = boxes.to(images).unbind(1)
    zero = torch.zeros_like(top)
    # Places run from −1 to 1: a piece begins at 2·left − 1 and has its middle half its width further on.
    across = torch.stack([width, zero, 2 * left + width - 1], dim=1)
    down = torch.stack([zero, height, 2 * top + height - 1], dim=1)
    grid = affine_grid(torch.stack([across, down], dim=1), list(images.shape), align_corners=False)
    return grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)
