"""What all charts share: the figure with its names, axes, labels, legend, and how one series differs from another.

Charts are drawn 400 wide, about as wide as a telephone shows, so that their letters stay readable there. Colors come
from the page's style sheet (classes `s0` to `s7`), so one drawing serves light, dark and print. Color is never alone:
bars have textures, lines have dashes, points have shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cplsr.report.markup import element, text
from cplsr.report.scales import Scale, tick_label

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 400.0, 42.0, 12.0, 26.0, 40.0
"""Width of a chart, and the room around a plot for the figures and names of its axes."""
COLORS = 8
LETTER = 7.6
"""Width of a letter of the charts' small print, near enough."""


def style(number: int) -> str:
    """The class that gives a series its color."""
    return f"s{number % COLORS}"


def chart(
    width: float,
    height: float,
    *content: str,
    title: str,
    description: str,
    caption: str | None = None,
    legend: str = "",
    wide: bool = False,
) -> str:
    """A drawing with a name and a description for those who cannot see it, as a figure with its legend.

    The caption is the title where none is given.
    """
    drawing = element(
        "svg",
        hint(title) + element("desc", text(description)),
        *content,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        role="img",
        aria_label=f"{title}. {description}" if description else title,
        class_="chart",
    )
    return figure(drawing, title if caption is None else caption, legend=legend, wide=wide)


def figure(drawing: str, caption: str, *, legend: str = "", wide: bool = False) -> str:
    """A drawing with its caption; `wide` lets it take the whole row and scroll within itself."""
    inner = element("div", drawing, class_="scroll", tabindex="0") if wide else drawing
    return element("figure", element("figcaption", text(caption)), legend, inner, class_="wide" if wide else None)


def figures(drawings: Iterable[str]) -> str:
    """Figures side by side, as many as fit; nothing where there are none."""
    shown = "".join(drawings)
    return element("div", shown, class_="figures") if shown else ""


def shorten(name: str, letters: int) -> str:
    """The beginning of a name that is too long for its place."""
    return name if len(name) <= letters else name[: max(1, letters - 1)].rstrip() + "…"


def label_width(names: Iterable[str], letters: int) -> float:
    """Room for the longest of some names, cut to so many letters."""
    return LETTER * max((min(len(name), letters) for name in names), default=0) + 8


def hint(content: str) -> str:
    """What a browser shows where the pointer rests."""
    return element("title", text(content))


def label(x: float, y: float, content: str, *, anchor: str = "start", class_: str = "label", letters: int = 0) -> str:
    """A line of small print; cut to so many letters, with the whole of it as a hint."""
    shown = shorten(content, letters) if letters else content
    return element(
        "text", hint(content) if shown != content else "", text(shown), x=x, y=y, text_anchor=anchor, class_=class_
    )


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def path(points: Iterable[tuple[float, float]]) -> str:
    """Straight lines from point to point, as the `d` of a path."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


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


def x_axis(scale: Scale, top: float, bottom: float, name: str) -> str:
    """Grid lines, figures and name of a horizontal axis."""
    parts = [
        line(scale(v), top, scale(v), bottom, "grid") + label(scale(v), bottom + 14, tick_label(v), anchor="middle")
        for v in scale.ticks()
    ]
    middle = (scale.start + scale.end) / 2
    return "".join(parts) + label(middle, bottom + 30, name, anchor="middle", class_="axis")


def axes(horizontal: Scale, vertical: Scale, x: str, y: str) -> str:
    """Both axes of a plot; the vertical one's name stands above, level, to be read without turning the head."""
    parts = [
        line(horizontal.start, vertical(v), horizontal.end, vertical(v), "grid")
        + label(horizontal.start - 6, vertical(v) + 4, tick_label(v), anchor="end")
        for v in vertical.ticks()
    ]
    name = label(4.0, vertical.end - 9, y, class_="axis")
    return x_axis(horizontal, vertical.end, vertical.start, x) + "".join(parts) + name


def swatches(entries: Sequence[tuple[str, str]]) -> str:
    """A legend: (drawing 22 x 12, name) each; it wraps where the screen is narrow."""
    items = [
        element("li", element("svg", drawing, viewBox="0 0 22 12", aria_hidden="true"), text(name))
        for drawing, name in entries
    ]
    return element("ul", *items, class_="legend") if items else ""
