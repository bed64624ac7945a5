"""Curves: what happened over the episodes of a training, or how a cost grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cplsr.report.differences import point
from cplsr.report.figures import WIDTH, picture, style, swatches, x_axis, y_axis
from cplsr.report.markup import element, significant, text
from cplsr.report.scales import Scale, has_place, scale_of

HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 230.0, 42.0, 12.0, 26.0, 40.0


@dataclass(frozen=True)
class Line:
    """One curve: its points from left to right, the 95 % half-widths around them if known, the number of its series.

    faint: drawn behind the others, without a place in the legend.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    series: int = 1
    half_widths: tuple[float | None, ...] = ()
    faint: bool = False
    marked: bool = False


def line_chart(
    lines: Sequence[Line],
    *,
    title: str,
    description: str,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
    include_y: tuple[float, ...] = (),
) -> str:
    """Curves over one horizontal axis; points that have no place on an axis are left out."""
    drawable = [_drawable(entry, log_x, log_y) for entry in lines]
    values_x = [px for entry in drawable for px, _ in entry.points]
    values_y = [value for entry in drawable for value in _extent(entry)]
    edges = () if log_x or not values_x else (min(values_x), max(values_x))
    horizontal = scale_of(values_x, LEFT, WIDTH - RIGHT, log=log_x, include=edges)
    vertical = scale_of(values_y, HEIGHT - BOTTOM, TOP, log=log_y, include=include_y)
    ticks = horizontal.ticks()
    axes = x_axis(horizontal, TOP, HEIGHT - BOTTOM, x, ticks) + y_axis(vertical, LEFT, WIDTH - RIGHT, y)
    curves = [_curve(entry, horizontal, vertical) for entry in drawable]
    return picture(WIDTH, HEIGHT, title, description, axes, *curves)


def line_legend(lines: Sequence[Line]) -> str:
    """Which line is whose."""
    return swatches(
        [
            (
                element("path", d="M1 6h20", class_=f"line {style(entry.series)}")
                + (point(11.0, 6.0, entry.series) if entry.marked else ""),
                entry.name,
            )
            for entry in lines
            if not entry.faint
        ]
    )


def moving_mean(points: Sequence[tuple[float, float]], window: int) -> tuple[tuple[float, float], ...]:
    """Mean of the last `window` points at each point: what a noisy curve does as a whole."""
    means = []
    for end in range(1, len(points) + 1):
        recent = [value for _, value in points[max(0, end - window) : end]]
        means.append((points[end - 1][0], sum(recent) / len(recent)))
    return tuple(means)


def _drawable(entry: Line, log_x: bool, log_y: bool) -> Line:
    halves = entry.half_widths or (None,) * len(entry.points)
    kept = [
        (place, half)
        for place, half in zip(entry.points, halves, strict=True)
        if has_place(place[0], log=log_x) and has_place(place[1], log=log_y)
    ]
    points, halves = tuple(place for place, _ in kept), tuple(half for _, half in kept)
    return Line(entry.name, points, entry.series, halves, entry.faint, entry.marked)


def _extent(entry: Line) -> list[float]:
    return [
        value + side * (half or 0.0)
        for (_, value), half in zip(entry.points, entry.half_widths, strict=True)
        for side in (-1, 1)
    ]


def _curve(entry: Line, horizontal: Scale, vertical: Scale) -> str:
    if not entry.points:
        return ""
    places = [(horizontal(px), vertical(py)) for px, py in entry.points]
    path = "M" + "L".join(f"{px:.1f} {py:.1f}" for px, py in places)
    hint = element("title", text(entry.name))
    faint = " faint" if entry.faint else ""
    drawn = element("path", hint, d=path, class_=f"line {style(entry.series)}{faint}")
    if entry.marked or len(places) == 1:
        drawn += "".join(
            element("g", element("title", text(f"{entry.name}: {significant(py, 4)} at {significant(px, 4)}")), shape)
            for (px, py), shape in zip(entry.points, [point(*place, entry.series) for place in places], strict=True)
        )
    return _band(entry, horizontal, vertical) + drawn


def _band(entry: Line, horizontal: Scale, vertical: Scale) -> str:
    known = [
        (horizontal(px), vertical(py - half), vertical(py + half))
        for (px, py), half in zip(entry.points, entry.half_widths, strict=True)
        if half is not None
    ]
    if len(known) < 2:
        return ""
    there = [f"{px:.1f} {lower:.1f}" for px, lower, _ in known]
    back = [f"{px:.1f} {upper:.1f}" for px, _, upper in reversed(known)]
    return element("path", d="M" + "L".join([*there, *back]) + "z", class_=f"band {style(entry.series)}")
