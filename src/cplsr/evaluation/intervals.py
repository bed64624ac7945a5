"""Means over episodes with their 95 % intervals, and paired comparisons of two methods on the same episodes."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float64
from numpy import ndarray

from cplsr.errors import InputError
from cplsr.records.results import excludes_zero

Z95 = 1.96
"""Half-width of a 95 % interval in standard errors, as few-shot papers print it."""


@dataclass(frozen=True)
class Interval:
    """A mean and the half-width 1.96 · σ / √n of its 95 % interval, in the unit of the values.

    σ is the sample standard deviation (divisor n − 1); with a single value nothing is known of it, and the half-width
    is `None`.
    """

    mean: float
    half_width: float | None


@dataclass(frozen=True)
class PairedDifference:
    """How much better one method is than another on the same episodes.

    Attributes:
        wins: Share of the episodes on which it is strictly better.
    """

    difference: Interval
    wins: float

    @property
    def significant(self) -> bool:
        """Whether 0 lies outside the interval of the difference."""
        return excludes_zero(self.difference.mean, self.difference.half_width)


def mean_interval(values: Float64[ndarray, "episodes"]) -> Interval:
    """Mean and 95 % half-width."""
    count = len(values)
    if count == 0:
        raise InputError("there are no episodes to average: ask for at least 1")
    half_width = Z95 * float(values.std(ddof=1)) / count**0.5 if count > 1 else None
    return Interval(float(values.mean()), half_width)


def paired_difference(values: Float64[ndarray, "episodes"], against: Float64[ndarray, "others"]) -> PairedDifference:
    """`values` − `against`, episode by episode: what both find hard cancels, so the interval is narrow."""
    if len(values) != len(against):
        raise InputError(f"{len(values)} and {len(against)} episodes cannot be paired: evaluate both on the same ones")
    return PairedDifference(mean_interval(values - against), float((values > against).mean()))
