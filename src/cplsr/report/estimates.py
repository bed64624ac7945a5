"""Mean and spread of several figures with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import stdev

from cplsr.records.estimate import Estimate


def combined(estimates: Sequence[Estimate]) -> Estimate:
    """Mean of independent estimates; its half-width is √(Σ half-width²) / n.

    Those of several targets are independent, because the targets' episodes are drawn apart. The interval of their mean
    is about the episodes, not about the choice of targets.
    """
    count = len(estimates)
    widths = [estimate.half_width for estimate in estimates if estimate.half_width is not None]
    half_width = sum(width**2 for width in widths) ** 0.5 / count if len(widths) == count else None
    return Estimate(sum(estimate.mean for estimate in estimates) / count, half_width)


def spread(seeds: Sequence[Estimate], *, sign: bool = False) -> str:
    """How far the means of several seeds lie apart: half of their 95 % t interval, of two the lower and the higher.

    They differ by their trainings and by their episodes, and both are in it.
    """
    means = [estimate.mean for estimate in seeds]
    if len(means) < 3:
        return " to ".join(Estimate(mean).written(sign=sign) for mean in sorted(means))
    from scipy.special import stdtrit

    half = float(stdtrit(len(means) - 1, 0.975)) * stdev(means) / len(means) ** 0.5
    return f"±{half:.2f}"
