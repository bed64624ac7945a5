"""Differences with their intervals around a line at zero, and pairs of points joined by a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cplsr.records.results import excludes_zero
from cplsr.report.figures import WIDTH, label_width, line, picture, shorten, style, swatches, words, x_axis
from cplsr.report.markup import element, number, text
from cplsr.report.scales import Scale, scale_of

ROW, LETTERS = 17.0, 26


@dataclass(frozen=True)
class Difference:
    """A change and its 95 % half-width; without one nothing can be said of chance."""

    name: str
    value: float
    half_width: float | None

    @property
    def verdict(self) -> str:
        """In words, from the interval."""
        if not excludes_zero(self.value, self.half_width):
            return "within chance"
        return "better" if self.value > 0 else "worse"


def difference_chart(differences: Sequence[Difference], *, title: str, description: str, axis: str) -> str:
    """One row each: a triangle up or down where the interval excludes zero, a ring where it does not."""
    left = label_width([entry.name for entry in differences], LETTERS)
    edges = [entry.value + side * (entry.half_width or 0.0) for entry in differences for side in (-1, 1)]
    scale = scale_of([*edges, 0.0], left + 4, WIDTH - 52)
    top, bottom = 6.0, 6.0 + ROW * len(differences) + 4
    parts = [x_axis(scale, top, bottom, axis), line(scale(0.0), top, scale(0.0), bottom, "zero")]
    for number_, entry in enumerate(differences):
        parts.append(_difference(entry, scale, left, top + ROW * (number_ + 0.5) + 2))
    return picture(WIDTH, bottom + 38, title, description, *parts)


def difference_legend() -> str:
    """What the shapes mean."""
    return swatches(
        [
            (_mark("better", 11.0, 6.0), "significantly better"),
            (_mark("worse", 11.0, 6.0), "significantly worse"),
            (_mark("within chance", 11.0, 6.0), "within chance"),
        ]
    )


def _difference(entry: Difference, scale: Scale, left: float, y: float) -> str:
    interval = "" if entry.half_width is None else f" ± {number(entry.half_width)}"
    hint = element("title", text(f"{entry.name}: {number(entry.value, sign=True)}{interval}, {entry.verdict}"))
    half = entry.half_width or 0.0
    kind = entry.verdict.split()[0]
    whisker = line(scale(entry.value - half), y, scale(entry.value + half), y, f"interval {kind}")
    name = words(left - 4, y + 4, shorten(entry.name, LETTERS), anchor="end", title=entry.name)
    value = words(WIDTH - 2, y + 4, number(entry.value, sign=True), anchor="end", class_="value")
    return element("g", hint, name, whisker, _mark(entry.verdict, scale(entry.value), y), value)


def _mark(verdict: str, x: float, y: float) -> str:
    if verdict == "better":
        return element("path", d=f"M{x:.1f} {y - 5:.1f}l5 9h-10z", class_="mark better")
    if verdict == "worse":
        return element("path", d=f"M{x:.1f} {y + 5:.1f}l5 -9h-10z", class_="mark worse")
    return element("circle", cx=x, cy=y, r=3.5, class_="mark within")


def before_after_chart(
    rows: Sequence[tuple[str, Sequence[float | None]]], *, title: str, description: str, axis: str, high: float
) -> str:
    """A row of points for each name, one point per series, joined by a line."""
    left = label_width([name for name, _ in rows], LETTERS)
    scale = Scale(0.0, high, left + 4, WIDTH - 12)
    top, bottom = 6.0, 6.0 + ROW * len(rows) + 4
    parts = [x_axis(scale, top, bottom, axis)]
    for place, (name, values) in enumerate(rows):
        y = top + ROW * (place + 0.5) + 2
        known = [scale(value) for value in values if value is not None]
        joined = line(min(known), y, max(known), y, "joint") if known else ""
        points = [point(scale(value), y, series) for series, value in enumerate(values) if value is not None]
        hint = element("title", text(f"{name}: {', '.join(number(value, 1) for value in values)}"))
        parts.append(element("g", hint, words(left - 4, y + 4, shorten(name, LETTERS), anchor="end"), joined, *points))
    return picture(WIDTH, bottom + 38, title, description, *parts)


def point(x: float, y: float, series: int) -> str:
    """A point of a series: ring, disc, square, diamond, triangle in turn."""
    kind = f"point {style(series)}"
    match series % 5:
        case 0:
            return element("circle", cx=x, cy=y, r=4, class_=f"{kind} open")
        case 1:
            return element("circle", cx=x, cy=y, r=4, class_=kind)
        case 2:
            return element("rect", x=x - 3.5, y=y - 3.5, width=7, height=7, class_=kind)
        case 3:
            return element("path", d=f"M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z", class_=kind)
    return element("path", d=f"M{x:.1f} {y - 4.5:.1f}l4.5 8h-9z", class_=kind)


def point_legend(names: Sequence[str]) -> str:
    """Which point is whose."""
    return swatches([(point(11.0, 6.0, series), name) for series, name in enumerate(names)])
