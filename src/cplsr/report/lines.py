"""Curves: what happened over the episodes of a training, or how a cost grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cplsr.report.figures import BOTTOM, LEFT, RIGHT, TOP, WIDTH, axes, chart, hint, path, point, style, swatches
from cplsr.report.markup import element, significant
from cplsr.report.scales import Scale, has_place, scale_of

HEIGHT = 230.0


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
    caption: str | None = None,
    log_y: bool = False,
    include_y: tuple[float, ...] = (),
) -> str:
    """Curves over one horizontal axis; points that have no place on an axis are left out."""
    drawable = [_drawable(entry, log_y) for entry in lines]
    values_x = [px for entry in drawable for px, _ in entry.points]
    values_y = [
        value + side * (half or 0.0)
        for entry in drawable
        for (_, value), half in zip(entry.points, entry.half_widths, strict=True)
        for side in (-1, 1)
    ]
    edges = (min(values_x), max(values_x)) if values_x else ()
    horizontal = scale_of(values_x, LEFT, WIDTH - RIGHT, include=edges)
    vertical = scale_of(values_y, HEIGHT - BOTTOM, TOP, log=log_y, include=include_y)
    curves = [_curve(entry, horizontal, vertical) for entry in drawable if entry.points]
    return chart(
        WIDTH,
        HEIGHT,
        axes(horizontal, vertical, x, y),
        *curves,
        title=title,
        description=description,
        caption=caption,
        legend=swatches([(_swatch(entry), entry.name) for entry in lines if not entry.faint]),
    )


def moving_mean(points: Sequence[tuple[float, float]], window: int) -> tuple[tuple[float, float], ...]:
    """Mean of the last `window` points at each point: what a noisy curve does as a whole."""
    means = []
    for end in range(1, len(points) + 1):
        recent = [value for _, value in points[max(0, end - window) : end]]
        means.append((points[end - 1][0], sum(recent) / len(recent)))
    return tuple(means)


def _swatch(entry: Line) -> str:
    stroke = element("path", d="M1 6h20", class_=f"line {style(entry.series)}")
    return stroke + (point(11.0, 6.0, entry.series) if entry.marked else "")


def _drawable(entry: Line, log_y: bool) -> Line:
    halves = entry.half_widths or (None,) * len(entry.points)
    kept = [
        (own, half)
        for own, half in zip(entry.points, halves, strict=True)
        if has_place(own[0]) and has_place(own[1], log=log_y)
    ]
    return replace(entry, points=tuple(own for own, _ in kept), half_widths=tuple(half for _, half in kept))


def _curve(entry: Line, horizontal: Scale, vertical: Scale) -> str:
    """The band of the intervals, the curve above it, and its points where they are marked."""
    pixels = [(horizontal(px), vertical(py)) for px, py in entry.points]
    faint = " faint" if entry.faint else ""
    drawn = element("path", hint(entry.name), d=path(pixels), class_=f"line {style(entry.series)}{faint}")
    if entry.marked or len(pixels) == 1:
        for (px, py), pixel in zip(entry.points, pixels, strict=True):
            figure = hint(f"{entry.name}: {significant(py, 4)} at {significant(px, 4)}")
            drawn += element("g", figure, point(*pixel, entry.series))
    known = [(px, py, half) for (px, py), half in zip(entry.points, entry.half_widths, strict=True) if half is not None]
    if len(known) < 2:
        return drawn
    lower = [(horizontal(px), vertical(py - half)) for px, py, half in known]
    upper = [(horizontal(px), vertical(py + half)) for px, py, half in reversed(known)]
    return element("path", d=path([*lower, *upper]) + "z", class_=f"band {style(entry.series)}") + drawn
