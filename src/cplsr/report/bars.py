"""Grouped bars with their intervals: accuracies of several methods on several targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cplsr.report.figures import WIDTH, label_width, line, picture, shorten, style, swatches, words, x_axis
from cplsr.report.markup import element, number, text
from cplsr.report.scales import Scale

BAR, GAP, LETTERS = 13.0, 10.0, 16


@dataclass(frozen=True)
class Bar:
    """One figure: whose it is, its 95 % half-width if known, and the number of its series."""

    name: str
    value: float
    half_width: float | None
    series: int


@dataclass(frozen=True)
class BarGroup:
    """Bars that belong together, first to last from the top."""

    name: str
    bars: tuple[Bar, ...]


def bar_chart(
    groups: Sequence[BarGroup], *, title: str, description: str, axis: str, high: float, reference: float | None = None
) -> str:
    """Horizontal bars from 0 to `high`, one group under the other, the figure at the end of each.

    reference: where a dotted line stands, such as the accuracy of guessing.
    """
    left = label_width([group.name for group in groups], LETTERS)
    scale = Scale(0.0, high, left, WIDTH - 44)
    top = 8.0
    y = top
    parts = []
    for group in groups:
        middle = y + BAR * len(group.bars) / 2 + 4
        parts.append(words(left - 8, middle, shorten(group.name, LETTERS), anchor="end", title=group.name))
        for bar in group.bars:
            parts.append(_bar(bar, group.name, scale, y))
            y += BAR
        y += GAP
    bottom = y - GAP + 4
    axes = x_axis(scale, top - 4, bottom, axis)
    guess = "" if reference is None else line(scale(reference), top - 4, scale(reference), bottom, "reference")
    return picture(WIDTH, bottom + 38, title, description, axes, *parts, guess)


def bar_legend(names: Sequence[tuple[str, int]]) -> str:
    """Which texture is whose."""
    return swatches(
        [
            (element("rect", x=1, y=1, width=20, height=10, class_=f"bar {style(series)}"), name)
            for name, series in names
        ]
    )


def _bar(bar: Bar, group: str, scale: Scale, y: float) -> str:
    interval = "" if bar.half_width is None else f" ± {number(bar.half_width)}"
    hint = element("title", text(f"{group}, {bar.name}: {number(bar.value)}{interval}"))
    end = scale(min(bar.value, scale.high))
    shape = element(
        "rect",
        x=scale.start,
        y=y + 1,
        width=max(0.0, end - scale.start),
        height=BAR - 2,
        class_=f"bar {style(bar.series)}",
    )
    whisker, place = "", end
    if bar.half_width is not None:
        low, place = scale(max(0.0, bar.value - bar.half_width)), scale(min(scale.high, bar.value + bar.half_width))
        middle = y + BAR / 2
        whisker = line(low, middle, place, middle, "whisker")
        whisker += line(low, middle - 3, low, middle + 3, "whisker") + line(
            place, middle - 3, place, middle + 3, "whisker"
        )
    return element("g", hint, shape, whisker, words(place + 4, y + BAR - 3, number(bar.value, 1), class_="value"))
