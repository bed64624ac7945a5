"""A figure with its 95 % interval, wherever one is measured, kept, compared or shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

Mark = Literal["", "better", "worse"]


class Estimate(NamedTuple):
    """A mean with the half-width of its 95 % interval; `None` where that is not known."""

    mean: float
    half_width: float | None = None

    @property
    def significant(self) -> bool:
        """Whether 0 lies outside the interval: the rule for calling a difference significant."""
        return self.half_width is not None and abs(self.mean) > self.half_width

    @property
    def mark(self) -> Mark:
        """Which way a difference goes where it is significant."""
        if not self.significant:
            return ""
        return "better" if self.mean > 0 else "worse"

    def written(self, before_interval: str = " ±", *, sign: bool = False) -> str:
        """With its interval, if there is one: 61.00 ±0.25."""
        mean = f"{self.mean:+,.2f}" if sign else f"{self.mean:,.2f}"
        return mean if self.half_width is None else f"{mean}{before_interval}{self.half_width:,.2f}"


def combined(estimates: Sequence[Estimate]) -> Estimate:
    """Mean of independent estimates; its half-width is √(Σ half-width²) / n.

    Those of several targets are independent, because the targets' episodes are drawn apart. The interval of their mean
    is about the episodes, not about the choice of targets.
    """
    count = len(estimates)
    widths = [estimate.half_width for estimate in estimates if estimate.half_width is not None]
    half_width = sum(width**2 for width in widths) ** 0.5 / count if len(widths) == count else None
    return Estimate(sum(estimate.mean for estimate in estimates) / count, half_width)
