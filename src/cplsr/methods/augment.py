"""Random changes to images that keep their class, and random convolutions; on tensors, with a stream of their own."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import conv2d, pad

GRAY = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in the brightness an eye sees (ITU-R BT.601)."""


def flip(images: Float[Tensor, "batch 3 height width"], generator: torch.Generator, chance: float = 0.5) -> Tensor:
    """Mirror each image left to right with probability `chance`."""
    return sometimes(images.flip(-1), images, chance, generator)


def color_jitter(images: Float[Tensor, "batch 3 height width"], strength: float, generator: torch.Generator) -> Tensor:
    """Brightness, contrast and saturation of each image times a factor within `strength` of 1; values in 0..1.

    Contrast is the distance from the image's mean brightness, saturation that from each pixel's own.
    """
    factors = 1 + strength * (2 * torch.rand(3, len(images), 1, 1, 1, generator=generator) - 1)
    brightness, contrast, saturation = factors.to(images)
    images = (images * brightness).clamp(0, 1)
    images = blend(images, gray(images).mean(dim=(1, 2, 3), keepdim=True), contrast)
    return blend(images, gray(images), saturation)


def blend(images: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    """Blend factor · images + (1 − factor) · other, kept in 0..1."""
    return (factor * images + (1 - factor) * other).clamp(0, 1)


def gray(images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch 1 height width"]:
    """Brightness of every pixel."""
    weights = torch.tensor(GRAY, dtype=images.dtype, device=images.device).view(1, 3, 1, 1)
    return (images * weights).sum(dim=1, keepdim=True)


def translate(images: Float[Tensor, "batch 3 height width"], share: float, generator: torch.Generator) -> Tensor:
    """Move each image by whole pixels, up to a share of its width either way along both axes; what comes in is 0."""
    height, width = images.shape[-2:]
    reach = int(share * width)
    moves = torch.randint(-reach, reach + 1, (len(images), 2), generator=generator).tolist()
    wide = pad(images, (reach, reach, reach, reach))
    return torch.stack(
        [image[:, reach + down : reach + down + height, reach + right : reach + right + width]
         for image, (down, right) in zip(wide, moves, strict=True)]
    )  # fmt: skip


def sometimes(changed: Tensor, images: Tensor, chance: float, generator: torch.Generator) -> Tensor:
    """Each image changed with probability `chance`, else as it was."""
    chosen = torch.rand(len(images), 1, 1, 1, generator=generator) < chance
    return torch.where(chosen.to(images.device), changed, images)


def random_convolution(
    images: Float[Tensor, "batch 3 height width"], sizes: tuple[int, ...], generator: torch.Generator
) -> Float[Tensor, "batch 3 height width"]:
    """One random kernel for the whole batch, its side drawn from `sizes` (odd), entries normal with variance 1/(3 k²).

    The variance keeps that of the pixels (Xu et al., ICLR 2021).
    """
    size = sizes[int(torch.randint(len(sizes), (1,), generator=generator))]
    kernel = torch.randn(3, 3, size, size, generator=generator).to(images) / (3 * size * size) ** 0.5
    return conv2d(images, kernel, padding=size // 2)
