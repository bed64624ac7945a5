"""Numbers that several settings share, with the range of each, and lists of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cplsr.declared import above, between
from cplsr.errors import InputError

Way = Annotated[int, between(1, 10_000)]
"""Classes in an episode."""
Images = Annotated[int, between(1, 10_000)]
"""Images of a class in an episode."""
BaseEpisodes = Annotated[int, between(1, 10_000_000)]
"""Episodes of a training."""
DrawnEpisodes = Annotated[int, between(1, 1_000_000)]
"""Episodes that are drawn at once and lie in memory."""
LearningRate = Annotated[float, above(0, 1000)]
"""Factor of a gradient."""
Temperature = Annotated[float, above(0, 10_000)]
"""Factor of the cosines."""
Seed = Annotated[int, between(0, 2**63 - 1)]
"""Start of all that is random."""


def refuse_repeats(name: str, given: Sequence[object]) -> None:
    """Refuse a list of choices that is empty or has one of them twice."""
    if not given or len(set(given)) < len(given):
        raise InputError(f"{name} are {list(given)}: give at least one, each once")
