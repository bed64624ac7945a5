"""Grouped bars with their intervals: accuracies of several methods on several targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cplsr.records.estimate import Estimate
from cplsr.report.figures import WIDTH, chart, hint, label, label_width, line, style, swatches, x_axis
from cplsr.report.markup import element, number
from cplsr.report.scales import Scale

TOP, BAR, GAP, LETTERS = 8.0, 13.0, 10.0, 16

Groups = Mapping[str, Mapping[str, Estimate]]
"""Figures in percent by the name of their series, in named groups."""


def bar_chart(
    groups: Groups,
    series: Sequence[str],
    *,
    title: str,
    axis: str,
    caption: str | None = None,
    reference: float | None = None,
) -> str:
    """Horizontal bars from 0 to 100, one named group under the other, the figure at the end of each.

    `series` are all names in the order of the legend; at `reference` stands a dotted line, such as the accuracy of
    guessing.
    """
    left = label_width(groups, LETTERS)
    scale = Scale(0.0, 100.0, left, WIDTH - 44)
    y, parts = TOP, []
    for name, bars in groups.items():
        parts.append(label(left - 8, y + BAR * len(bars) / 2 + 4, name, anchor="end", letters=LETTERS))
        for row, (own, figure) in enumerate(bars.items()):
            parts.append(_bar(figure, f"{name}, {own}", series.index(own), scale, y + BAR * row))
        y += BAR * len(bars) + GAP
    bottom = y - GAP + 4
    if reference is not None:
        parts.append(line(scale(reference), TOP - 4, scale(reference), bottom, "reference"))
    look = {"x": 1, "y": 1, "width": 20, "height": 10}
    spoken = {name: [f"{own} {number(bar.mean, 1)}" for own, bar in bars.items()] for name, bars in groups.items()}
    return chart(
        WIDTH,
        bottom + 38,
        x_axis(scale, TOP - 4, bottom, axis),
        *parts,
        title=title,
        description="; ".join(f"{name}: {', '.join(own)}" for name, own in spoken.items()),
        caption=caption,
        legend=swatches(
            [(element("rect", **look, class_=f"bar {style(own)}"), name) for own, name in enumerate(series)]
        ),
    )


def _bar(figure: Estimate, name: str, series: int, scale: Scale, y: float) -> str:
    value, half_width = figure
    end = scale(min(value, scale.high))
    size = {"width": max(0.0, end - scale.start), "height": BAR - 2}
    shape = element("rect", x=scale.start, y=y + 1, **size, class_=f"bar {style(series)}")
    whisker = ""
    if half_width is not None:
        start, end = scale(max(0.0, value - half_width)), scale(min(scale.high, value + half_width))
        middle = y + BAR / 2
        ends = "".join(line(x, middle - 3, x, middle + 3, "whisker") for x in (start, end))
        whisker = line(start, middle, end, middle, "whisker") + ends
    words = hint(f"{name}: {figure.written(' ± ')}")
    return element("g", words, shape, whisker, label(end + 4, y + BAR - 3, number(value, 1), class_="value"))
