"""From figures to places on a chart, and the round figures that stand along its axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

TINY, HUGE = 1e-200, 1e200
"""Beyond these, arithmetic on an axis would lose its digits."""


@dataclass(frozen=True)
class Scale:
    """Figures from `low` to `high` laid along pixels from `start` to `end`, evenly or by their logarithms."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a figure."""
        low, high, value = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self, count: int = 5) -> tuple[float, ...]:
        """Round figures within the scale, about `count` of them."""
        if self.log:
            powers = range(math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1)
            decades = tuple(10.0**power for power in powers)
            if len(decades) >= 3:
                return decades[:: max(1, round(len(decades) / count))]
            steps = [m * 10.0**p for p in range(powers.start - 1, powers.stop) for m in (1, 2, 5)]
            return tuple(value for value in steps if self.low <= value <= self.high) or (self.low, self.high)
        step = round_step((self.high - self.low) / count)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return tuple(index * step for index in range(first, last + 1))


def scale_of(
    values: Iterable[float], start: float, end: float, *, log: bool = False, include: tuple[float, ...] = ()
) -> Scale:
    """A scale that holds all figures, `include` too, with a little room around them.

    An edge that is one of `include` gets no room: an axis that starts at 0 starts there. Figures without a place
    on it, such as those that are not finite and with `log` those that are not positive, are passed over.
    """
    kept = [value for value in (*values, *include) if has_place(value, log=log)]
    low, high = (min(kept), max(kept)) if kept else (1.0 if log else 0.0, 1.0)
    if log:
        high = high if high > low else 10 * low
        return Scale(low / 1.15, high * 1.15, start, end, log=True)
    size = max(abs(low), abs(high))
    if high - low <= max(1e-9 * size, TINY):  # closer than their own rounding: as good as one figure
        room = size / 10 if size > TINY else 1.0
        low, high = low - room, high + room
    room = 0.05 * (high - low)
    return Scale(low if low in include else low - room, high if high in include else high + room, start, end)


def has_place(value: float, *, log: bool = False) -> bool:
    """Whether a figure can stand on an axis at all."""
    return abs(value) <= HUGE and (value >= TINY or not log)


def round_step(step: float) -> float:
    """The next of 1, 2, 2.5 and 5 times a power of ten that is no smaller."""
    power = 10.0 ** math.floor(math.log10(step))
    return next((factor * power for factor in (1, 2, 2.5, 5) if factor * power >= step * (1 - 1e-9)), 10 * power)


def tick_label(value: float) -> str:
    """A round figure, short: 0.25, 40, 1.5k, 20M."""
    if value == 0:
        return "0"
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.6g}{letter}"
    return f"{value:.3g}" if abs(value) >= 1e-3 else f"{value:.0e}".replace("e-0", "e-")
