"""Random changes to images that keep their class, pieces, and random convolutions; with a stream of their own."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.nn.functional import affine_grid, avg_pool2d, conv2d, grid_sample, pad

from cplsr.settings.training import TURNS, Augment

GRAY = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in the brightness an eye sees (ITU-R BT.601)."""
RATIO = 4 / 3
"""A piece is at most this many times as wide as high, or as high as wide."""
JITTER = 0.4
"""By how much brightness, contrast and saturation of a base image may be changed."""
STRONG_JITTER = 0.8
"""The same for foreign views."""
CHANCE = 0.3
"""Probability of each change of a foreign view."""
KERNELS = (1, 3, 5, 7)
"""Sides of the kernels of random convolutions there."""
PIECE = (0.08, 1.0)
"""Least and largest area of a piece of a base image."""


def augmented(
    images: UInt8[Tensor, "batch 3 size size"], kind: Augment, generator: torch.Generator
) -> UInt8[Tensor, "batch 3 size size"]:
    """Base images as training sees them: for `crop` a piece of each, enlarged; other colors, half of them flipped."""
    if kind == "none":
        return images
    changed = images.float() / 255
    if kind == "foreign":
        return (foreign(changed, generator) * 255).round().to(torch.uint8)
    if kind == "crop":
        changed = cut(changed, crop_boxes(len(images), PIECE, generator))
    changed = flip(color_jitter(changed, JITTER, generator), generator)
    return (changed * 255).round().to(torch.uint8)


def foreign(images: Float[Tensor, "batch 3 size size"], generator: torch.Generator) -> Tensor:
    """Images as of another domain: each change comes to each image with the probability `CHANCE`; values in 0..1.

    One kernel is drawn for all images of a random convolution, whose result is spread over 0..1 image by image.
    """
    changes = (
        lambda x: color_jitter(x, STRONG_JITTER, generator),
        lambda x: gray(x).expand_as(x),
        blur,
        lambda x: posterize(x, generator),
        lambda x: mask_frequencies(x, generator),
        lambda x: spread(random_convolution(x, KERNELS, generator)),
    )
    for change in changes:
        images = sometimes(change(images), images, CHANCE, generator)
    return images


def blur(images: Float[Tensor, "batch 3 height width"]) -> Tensor:
    """The mean of 5 × 5 pixels, those at the border repeated outside."""
    return avg_pool2d(pad(images, (2, 2, 2, 2), mode="replicate"), 5, stride=1)


def posterize(images: Float[Tensor, "batch 3 height width"], generator: torch.Generator) -> Tensor:
    """Round the values of each image to 2 to 8 equal steps."""
    steps = torch.randint(1, 8, (len(images), 1, 1, 1), generator=generator).to(images)
    return (images * steps).round() / steps


def mask_frequencies(images: Float[Tensor, "batch 3 height width"], generator: torch.Generator) -> Tensor:
    """Leave a random half of each image's frequencies out, but never its mean color; values kept in 0..1."""
    spectrum = torch.fft.rfft2(images)
    kept = torch.rand(len(images), 1, *spectrum.shape[-2:], generator=generator).to(images.device) < 0.5
    kept[..., 0, 0] = True
    return torch.fft.irfft2(spectrum * kept, s=images.shape[-2:]).clamp(0, 1)


def spread(images: Float[Tensor, "batch 3 height width"]) -> Tensor:
    """Stretch the values of each image to 0..1; an image of one value becomes 0."""
    low, high = (edge(dim=(1, 2, 3), keepdim=True) for edge in (images.amin, images.amax))
    return (images - low) / torch.where(high > low, high - low, 1)


def turned_at_random(
    images: UInt8[Tensor, "batch 3 size size"], generator: torch.Generator
) -> UInt8[Tensor, "batch 3 size size"]:
    """Each image turned by a random multiple of 90°."""
    turns = torch.randint(TURNS, (len(images),), generator=generator).tolist()
    return torch.stack([image.rot90(turn, dims=(-2, -1)) for image, turn in zip(images, turns, strict=True)])


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
