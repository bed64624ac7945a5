"""95 % intervals of means over episodes and of counted shares, and paired comparisons of two methods."""

from __future__ import annotations

from jaxtyping import Float64
from numpy import ndarray

from cplsr.errors import InputError
from cplsr.records.estimate import Estimate

Z95 = 1.96
"""Half-width of a 95 % interval in standard errors, as few-shot papers print it."""


def mean_interval(values: Float64[ndarray, "episodes"]) -> Estimate:
    """Mean and the half-width 1.96 · σ / √n of its 95 % interval, in the unit of the values.

    σ is the sample standard deviation (divisor n − 1); with a single value nothing is known of it, and the half-width
    is `None`.
    """
    count = len(values)
    if count == 0:
        raise InputError("there are no episodes to average: ask for at least 1")
    half_width = Z95 * float(values.std(ddof=1)) / count**0.5 if count > 1 else None
    return Estimate(float(values.mean()), half_width)


def paired_difference(
    values: Float64[ndarray, "episodes"], against: Float64[ndarray, "others"]
) -> tuple[Estimate, float]:
    """`values` − `against`, episode by episode: what both find hard cancels, so the interval is narrow.

    Returns:
        The mean difference, and the share of the episodes in which it is above 0.
    """
    if len(values) != len(against):
        raise InputError(f"{len(values)} and {len(against)} episodes cannot be paired: evaluate both on the same ones")
    return mean_interval(values - against), float((values > against).mean())


def wilson_interval(share: float, of: float) -> tuple[float, float]:
    """Compute the 95 % confidence interval of a proportion that was counted.

    It is Wilson's score interval, (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n) with z = 1.96, for a share p of n
    that were counted; of none it is 0 to 1. Where these are not independent, n is less than their number.
    """
    if of == 0:
        return 0.0, 1.0
    weight = Z95**2 / of
    center = (share + weight / 2) / (1 + weight)
    half = Z95 * (share * (1 - share) / of + weight / (4 * of)) ** 0.5 / (1 + weight)
    # The ends are exact where all or none are right, but not in floating point.
    return (center - half if share > 0 else 0.0), (center + half if share < 1 else 1.0)
