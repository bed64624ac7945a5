"""Random draws that are the same on every platform and with every library version, and the streams they are from.

Only the raw words of the counter-based Philox generator are used: they are fixed by its definition, whereas the
methods of `numpy.random.Generator` may change between versions. The mapping from words to draws is ours. What draws
from one stream never meets the numbers of another.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import torch
from jaxtyping import Int32, Int64, UInt32
from numpy import ndarray

WORDS_PER_BLOCK = 8
"""Philox 4x64 makes four 64-bit words for every value of its counter; each gives two of 32 bits."""


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


def philox_words(seed: int, rows: int, words: int, *, first: int = 0, stream: int = 0) -> UInt32[ndarray, "rows words"]:
    """Rows `first` to `first + rows` of an endless table of random words, `words` in a row.

    A row depends on the seed, the stream and its own place alone, so a run that stopped can go on at any row.
    """
    blocks = -(-words // WORDS_PER_BLOCK)
    key = np.array([seed, stream], dtype=np.uint64)
    raw = np.random.Philox(key=key, counter=first * blocks).random_raw(rows * blocks * WORDS_PER_BLOCK // 2)
    halves = raw.astype("<u8", copy=False).view("<u4").astype(np.uint32, copy=False)  # lower half first, everywhere
    return halves.reshape(rows, blocks * WORDS_PER_BLOCK)[:, :words]


def below(words: UInt32[ndarray, "rows"], bounds: Int64[ndarray, "rows"]) -> Int64[ndarray, "rows"]:
    """Map each word to 0, ..., bound − 1: the upper half of the 64-bit product word · bound.

    A value's probability differs from 1/bound by less than 2⁻³²: for a class of 40,000 images one part in 100,000,
    far below what any number of episodes one could wait for would show. Bounds must be below 2³¹.
    """
    return words * bounds >> 32


def distinct_below(words: UInt32[ndarray, "draws rows"], sizes: Int64[ndarray, "rows"]) -> Int32[ndarray, "draws rows"]:
    """In every column, as many distinct numbers below its size as there are draws, in random order.

    These are the first steps of a Fisher-Yates shuffle of 0, ..., size − 1, for all columns at once. The shuffled array
    is never made: a slot holds its own number until some step moves another one there, and a column remembers only
    its few moves. Every ordered choice is equally likely. Draws beyond a column's size have no meaning.
    """
    draws, rows = words.shape
    drawn = np.empty((draws, rows), dtype=np.int32)
    slots = np.empty((draws, rows), dtype=np.int32)  # where each step puts the number of its own slot...
    moved = np.repeat(np.arange(draws, dtype=np.int32)[:, None], rows, axis=1)  # ...and which number that is
    smallest = sizes.min(initial=draws)
    for step in range(draws):
        target = below(words[step], sizes - step if step < smallest else np.maximum(sizes - step, 1))
        target += step
        drawn[step] = slots[step] = target
        same = np.flatnonzero(slots[:step] == slots[step])
        earlier, column = np.divmod(same, rows)  # as np.nonzero has them, several times faster where they are few
        drawn[step, column] = moved[earlier, column]
        slots[earlier, column] = -1  # this step overwrites that slot: only its latest move counts
        (near,) = np.nonzero(target < draws)  # a slot whose own step is still to come
        moved[target[near], near] = moved[step, near]
    return drawn
