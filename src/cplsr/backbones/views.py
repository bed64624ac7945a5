"""How often a backbone looks at an image: as it is, mirrored, turned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from jaxtyping import Shaped
from torch import Tensor, rot90

from cplsr.errors import InputError
from cplsr.settings.backbone import Views

TURNS = {"plain": (1, 1), "mirrored": (2, 1), "turned": (2, 4)}
"""Mirror images and quarter turns of each kind of views."""


def check_views(views: str) -> str:
    """Return the kind of views, if there is one of that name."""
    if views not in TURNS:
        raise InputError(f"views {views!r} are not known: give {', '.join(get_args(Views))}")
    return views


def views_of(images: Shaped[Tensor, "batch 3 size size"], views: str) -> Iterator[Shaped[Tensor, "batch 3 size size"]]:
    """Every view of a batch of images in turn, the images themselves first.

    Example:
        >>> import torch
        >>> image = torch.arange(4).view(1, 1, 2, 2).expand(1, 3, 2, 2)
        >>> [view[0, 0].tolist() for view in views_of(image, "mirrored")]
        [[[0, 1], [2, 3]], [[1, 0], [3, 2]]]
    """
    mirrors, turns = TURNS[views]
    for mirrored in (images, images.flip(-1))[:mirrors]:
        for turn in range(turns):
            yield rot90(mirrored, turn, (-2, -1)) if turn else mirrored
