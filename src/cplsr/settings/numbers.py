"""Numbers that several settings share, with the range of each."""

from __future__ import annotations

from typing import Annotated

from cplsr.declared import above, between

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
