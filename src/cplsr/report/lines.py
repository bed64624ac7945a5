"""Curves: what happened over the episodes of a training, how a cost grows, whether confidences hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cplsr.records.results import CalibrationRow
from cplsr.report.figures import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    axes,
    chart,
    hint,
    label,
    line,
    path,
    point,
    style,
    swatches,
)
from cplsr.report.markup import element, number, significant
from cplsr.report.scales import Scale, has_place, scale_of

HEIGHT, SQUARE = 230.0, 330.0


Point = tuple[float, float] | tuple[float, float, float | None]
"""Where a curve passes, and the 95 % half-width around it, if known."""


@dataclass(frozen=True)
class Line:
    """One curve.

    Attributes:
        name: For the legend.
        points: From left to right.
        series: Its number, which gives it color and dashes.
        faint: Drawn behind the others, without a place in the legend.
        marked: With a shape at every point.
    """

    name: str
    points: Sequence[Point]
    series: int = 1
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
    drawable = [
        replace(entry, points=[p for p in entry.points if has_place(p[0]) and has_place(p[1], log=log_y)])
        for entry in lines
    ]
    values_x = [point[0] for entry in drawable for point in entry.points]
    values_y = [edge for entry in drawable for point in entry.points for edge in _interval(point)]
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
    recent = ([value for _, value in points[max(0, end - window) : end]] for end in range(1, len(points) + 1))
    return tuple((x, sum(values) / len(values)) for (x, _), values in zip(points, recent, strict=True))


def _swatch(entry: Line) -> str:
    stroke = element("path", d="M1 6h20", class_=f"line {style(entry.series)}")
    return stroke + (point(11.0, 6.0, entry.series) if entry.marked else "")


def _interval(point: Point) -> tuple[float, float]:
    """Both ends of the interval around a point; the point itself where none is known."""
    half = (point[2] if len(point) == 3 else None) or 0.0
    return point[1] - half, point[1] + half


def _curve(entry: Line, horizontal: Scale, vertical: Scale) -> str:
    """The band of the intervals, the curve above it, and its points where they are marked."""
    pixels = [(horizontal(p[0]), vertical(p[1])) for p in entry.points]
    faint = " faint" if entry.faint else ""
    drawn = element("path", hint(entry.name), d=path(pixels), class_=f"line {style(entry.series)}{faint}")
    if entry.marked or len(pixels) == 1:
        for p, pixel in zip(entry.points, pixels, strict=True):
            figure = hint(f"{entry.name}: {significant(p[1], 4)} at {significant(p[0], 4)}")
            drawn += element("g", figure, point(*pixel, entry.series))
    known = [(horizontal(p[0]), *map(vertical, _interval(p))) for p in entry.points if len(p) == 3 and p[2] is not None]
    if len(known) < 2:
        return drawn
    band = [*((x, low) for x, low, _ in known), *((x, high) for x, _, high in reversed(known))]
    return element("path", d=path(band) + "z", class_=f"band {style(entry.series)}") + drawn


def reliability_chart(row: CalibrationRow, series: int) -> str:
    """Accuracy over confidence: on the diagonal a method is as good as it says.

    The larger a point, the more queries are in its bin; bins without any are left out.
    """
    x, y = Scale(0.0, 1.0, LEFT, WIDTH - RIGHT), Scale(0.0, 1.0, SQUARE - BOTTOM, TOP)
    filled = [entry for entry in row.bins if entry.share > 0]
    curve = path((x(entry.confidence), y(entry.accuracy)) for entry in filled) if filled else "M0 0"
    points = []
    for entry in filled:
        right, height = x(entry.confidence), y(entry.accuracy)
        says = f"sure {entry.confidence:.0%}, right {entry.accuracy:.0%}, {entry.share:.1%} of the queries"
        disc = element("circle", cx=right, cy=height, r=2 + 7 * entry.share**0.5, class_=f"bubble {style(series)}")
        points.append(element("g", hint(says), line(right, y(entry.confidence), right, height, "gap"), disc))
    error = f"{number(100 * row.ece, 1)} %"
    return chart(
        WIDTH,
        SQUARE,
        axes(x, y, "confidence", "accuracy"),
        line(x(0.0), y(0.0), x(1.0), y(1.0), "reference"),
        element("path", d=curve, class_=f"line {style(series)}"),
        *points,
        label(WIDTH - 18, y(0.05), f"ECE {error}", anchor="end", class_="strong"),
        title=f"Reliability of {row.method} on {row.target}",
        description=f"Expected calibration error {error}.",
        caption=f"{row.method}, temperature {row.temperature:g}",
    )
