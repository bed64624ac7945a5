"""A figure with its 95 % interval: how it is written, what may be said of it, mean and spread of several."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import stdev
from typing import NamedTuple

from cplsr.records.results import PairedRow, excludes_zero
from cplsr.report.markup import number
from cplsr.report.tables import Mark


class Estimate(NamedTuple):
    """A mean with the half-width of its 95 % interval; `None` where that is not known."""

    mean: float
    half_width: float | None

    @property
    def mark(self) -> Mark:
        """Which way a difference goes where 0 lies outside its interval."""
        if not excludes_zero(self.mean, self.half_width):
            return ""
        return "better" if self.mean > 0 else "worse"

    def written(self, before_interval: str = " ±", *, sign: bool = False) -> str:
        """With its interval, if there is one: 61.00 ±0.25."""
        interval = "" if self.half_width is None else before_interval + number(self.half_width)
        return number(self.mean, sign=sign) + interval


def combined(estimates: Sequence[Estimate]) -> Estimate:
    """Mean of independent estimates; its half-width is √(Σ half-width²) / n."""
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
        return " to ".join(number(mean, sign=sign) for mean in sorted(means))
    from scipy.special import stdtrit

    return "±" + number(float(stdtrit(len(means) - 1, 0.975)) * stdev(means) / len(means) ** 0.5)


def average_difference(rows: Sequence[PairedRow]) -> Estimate:
    """Mean of differences on several targets at one shot.

    The targets' episodes are drawn apart, so their errors are independent. The interval is about the episodes, not
    about the choice of targets.
    """
    return combined([Estimate(row.difference, row.ci95) for row in rows])
