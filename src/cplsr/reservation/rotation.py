"""Self-supervised transformations: every image turned four ways, every turn a class of its own (Eq. 13)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int, Int64, Shaped
from torch import Tensor

from cplsr.errors import InputError
from cplsr.settings.training import TURNS


@dataclass(frozen=True, eq=False)
class RotatedImages:
    """Four times the images, one quarter turn after another: image i turned j times stands at j · images + i."""

    images: Shaped[Tensor, "rotated channels size size"]
    labels: Int[Tensor, "rotated"]


def rotate_images(
    images: Shaped[Tensor, "images channels height width"],
) -> Shaped[Tensor, "rotated channels height width"]:
    """All images turned counter-clockwise by 0°, then all by 90°, 180° and 270°."""
    height, width = images.shape[-2:]
    if height != width:
        raise InputError(f"images of {height} × {width} pixels cannot be turned and stacked: crop them square first")
    return torch.cat([torch.rot90(images, turns, dims=(-2, -1)) for turns in range(TURNS)])


def rotate_labels(labels: Int[Tensor, "images"], classes: int) -> Int[Tensor, "rotated"]:
    """Number the classes j · L + y after j quarter turns, L = `classes`, in the order of `rotate_images` (Eq. 13)."""
    if len(labels) > 0 and (labels.min() < 0 or labels.max() >= classes):
        raise InputError(f"labels run from {labels.min()} to {labels.max()}: with {classes} classes give 0 to L - 1")
    return torch.cat([labels + turns * classes for turns in range(TURNS)])


def add_rotations(
    images: Shaped[Tensor, "images channels height width"], labels: Int[Tensor, "images"], classes: int
) -> RotatedImages:
    """The images and their rotations with labels 0, ..., 4L − 1 (Eq. 13)."""
    return RotatedImages(rotate_images(images), rotate_labels(labels, classes))


def split_rotated_episode(way: int, *, generator: torch.Generator) -> Int64[Tensor, "4 way"]:
    """Deal the 4N classes of a rotated N-way episode into 4 disjoint N-way episodes at random.

    Entry c is base class c mod N of the episode, turned c div N times, as `rotate_labels` numbers them for L = N.
    """
    if way < 1:
        raise InputError(f"way is {way}: an episode needs at least 1 class")
    return torch.randperm(TURNS * way, generator=generator).view(TURNS, way)
