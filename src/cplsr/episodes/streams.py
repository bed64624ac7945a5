"""The streams of random numbers, by name: what draws from one never meets the numbers of another."""

from __future__ import annotations

from enum import IntEnum

import torch

from cplsr.episodes.draws import philox_words


class Stream(IntEnum):
    """What is drawn from each stream; the second half of the key of `philox_words`, which results depend on."""

    IMAGES = 0
    """Images of an episode; a numbered attempt to draw it again has a stream behind this one."""
    PSEUDO_EPISODES = 2**32
    POOL_ORDER = 2**32 + 1
    """In which order a pool of pseudo-episodes is used again."""
    SPLITS = 2**32 + 2
    """How turned classes are dealt into episodes."""
    HELD_OUT_CLASSES = 2**32 + 3
    OBJECTIVES = 2**32 + 4
    ADAPTATIONS = 2**32 + 5
    AUGMENTATIONS = 2**32 + 6
    """How base images are changed in training."""
    UNEVEN_QUERIES = 2**33
    """Shares of the classes, and queries beyond the balanced number; attempts as with `IMAGES`."""


def numbered_generator(seed: int, number: int, stream: Stream) -> torch.Generator:
    """Make the torch generator that belongs to one number of a stream."""
    word = philox_words(seed, 1, 1, first=number, stream=stream)[0, 0]
    return torch.Generator().manual_seed(int(word))
