"""Self-supervised transformations: every image turned four ways, every turn a class of its own (Eq. 13)."""

from __future__ import annotations

import torch
from jaxtyping import Int64
from torch import Tensor

from cplsr.errors import InputError
from cplsr.settings.training import TURNS


def split_rotated_episode(way: int, *, generator: torch.Generator) -> Int64[Tensor, "4 way"]:
    """Deal the 4N classes of a rotated N-way episode into 4 disjoint N-way episodes at random.

    Entry c is base class c mod N of the episode, turned c div N times counter-clockwise.
    """
    if way < 1:
        raise InputError(f"way is {way}: an episode needs at least 1 class")
    return torch.randperm(TURNS * way, generator=generator).view(TURNS, way)
