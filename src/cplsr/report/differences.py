"""Differences with their intervals around a line at zero, and pairs of points joined by a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cplsr.records.estimate import Estimate, Mark
from cplsr.report.figures import WIDTH, chart, hint, label, label_width, line, point, swatches, x_axis
from cplsr.report.markup import element, number
from cplsr.report.scales import Scale, scale_of

TOP, ROW, LETTERS = 6.0, 17.0, 26
CHANCE = "within chance"


def difference_chart(rows: Mapping[str, Estimate], *, title: str) -> str:
    """Named differences: a triangle up or down where the interval excludes zero, a ring where it does not."""
    ends = [change.mean + side * (change.half_width or 0.0) for change in rows.values() for side in (-1, 1)]
    scale = scale_of([0.0, *ends], label_width(rows, LETTERS) + 4, WIDTH - 52)
    drawn = [_difference(change, name, scale, _middle(row)) for row, (name, change) in enumerate(rows.items())]
    spoken = [f"{name} {number(change.mean, sign=True)}, {change.mark or CHANCE}" for name, change in rows.items()]
    looks: dict[str, Mark] = {"significantly better": "better", "significantly worse": "worse", CHANCE: ""}
    return _rows_chart(
        drawn,
        scale,
        "difference, percentage points",
        title=title,
        description="; ".join(spoken),
        legend=swatches([(_shape(mark, 11.0, 6.0), name) for name, mark in looks.items()]),
    )


def before_after_chart(
    rows: Sequence[tuple[str, Sequence[float]]], series: Sequence[str], *, title: str, axis: str, caption: str
) -> str:
    """A row of points from 0 to 100 for each name, one point per series, joined by a line."""
    left = label_width([name for name, _ in rows], LETTERS)
    scale = Scale(0.0, 100.0, left + 4, WIDTH - 12)
    drawn = []
    for number_, (name, values) in enumerate(rows):
        y, across = _middle(number_), [scale(value) for value in values]
        row = hint(f"{name}: {', '.join(number(value, 1) for value in values)}")
        row += label(left - 4, y + 4, name, anchor="end", letters=LETTERS)
        points = "".join(point(x, y, own) for own, x in enumerate(across))
        drawn.append(element("g", row, line(min(across), y, max(across), y, "joint"), points))
    return _rows_chart(
        drawn,
        scale,
        axis,
        title=title,
        description=", ".join(f"{name} {number(values[-1], 0)} %" for name, values in rows),
        caption=caption,
        legend=swatches([(point(11.0, 6.0, own), name) for own, name in enumerate(series)]),
    )


def _rows_chart(rows: Sequence[str], scale: Scale, axis: str, **named: Any) -> str:
    """Rows under each other over one axis, with a line at zero where that is not its edge."""
    bottom = TOP + ROW * len(rows) + 4
    zero = line(scale(0.0), TOP, scale(0.0), bottom, "zero") if scale.low < 0 else ""
    return chart(WIDTH, bottom + 38, x_axis(scale, TOP, bottom, axis), zero, *rows, **named)


def _middle(row: int) -> float:
    return TOP + ROW * (row + 0.5) + 2


def _difference(change: Estimate, name: str, scale: Scale, y: float) -> str:
    half = change.half_width or 0.0
    return element(
        "g",
        hint(f"{name}: {change.written(' ± ', sign=True)}, {change.mark or CHANCE}"),
        label(scale.start - 8, y + 4, name, anchor="end", letters=LETTERS),
        line(scale(change.mean - half), y, scale(change.mean + half), y, f"interval {change.mark or 'within'}"),
        _shape(change.mark, scale(change.mean), y),
        label(WIDTH - 2, y + 4, number(change.mean, sign=True), anchor="end", class_="value"),
    )


def _shape(mark: Mark, x: float, y: float) -> str:
    match mark:
        case "better":
            return element("path", d=f"M{x:.1f} {y - 5:.1f}l5 9h-10z", class_="mark better")
        case "worse":
            return element("path", d=f"M{x:.1f} {y + 5:.1f}l5 -9h-10z", class_="mark worse")
    return element("circle", cx=x, cy=y, r=3.5, class_="mark within")
