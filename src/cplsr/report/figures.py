"""What all charts share: the picture with its words, axes, legend, and how a series is told from another.

Charts are drawn 400 wide, about as wide as a telephone shows, so that their letters stay readable there. Colors come
from the page's style sheet (classes `s0` to `s7`), so one drawing serves light, dark and print. Color is never alone:
bars have textures, lines have dashes, points have shapes.
"""

from __future__ import annotations

from collections.abc import Sequence

from cplsr.report.markup import element, text
from cplsr.report.scales import Scale, tick_label

WIDTH = 400.0
COLORS = 8
LETTER = 7.6
"""Width of a letter of the charts' small print, near enough."""


def style(number: int) -> str:
    """Class of a series."""
    return f"s{number % COLORS}"


def picture(width: float, height: float, title: str, description: str, *children: str) -> str:
    """An `svg` with a name and a description for those who cannot see it."""
    words = element("title", text(title)) + element("desc", text(description))
    label = f"{title}. {description}" if description else title
    return element(
        "svg", words, *children, viewBox=f"0 0 {width:.0f} {height:.0f}", role="img", aria_label=label, class_="chart"
    )


def figure(drawing: str, caption: str = "", *, legend: str = "", wide: bool = False) -> str:
    """A drawing with its caption; `wide` lets it take the whole row and scroll within itself."""
    below = element("figcaption", text(caption)) if caption else ""
    inner = element("div", drawing, class_="scroll", tabindex="0") if wide else drawing
    return element("figure", below, legend, inner, class_="wide" if wide else None)


def figures(*drawings: str) -> str:
    """Figures side by side, as many as fit."""
    return element("div", *drawings, class_="figures")


def shorten(name: str, letters: int) -> str:
    """The beginning of a name that is too long for its place."""
    return name if len(name) <= letters else name[: max(1, letters - 1)].rstrip() + "…"


def label_width(names: Sequence[str], letters: int) -> float:
    """Room for the longest of some names, cut to so many letters."""
    return LETTER * max((min(len(name), letters) for name in names), default=0) + 8


def words(x: float, y: float, content: str, *, anchor: str = "start", class_: str = "label", title: str = "") -> str:
    """A line of small print; the whole of it as a hint where it was cut."""
    hint = element("title", text(title)) if title and title != content else ""
    return element("text", hint + text(content), x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def x_axis(scale: Scale, top: float, bottom: float, label: str, ticks: Sequence[float] | None = None) -> str:
    """Grid lines, figures and name of a horizontal axis."""
    values = scale.ticks() if ticks is None else ticks
    parts = [
        line(scale(v), top, scale(v), bottom, "grid") + words(scale(v), bottom + 14, tick_label(v), anchor="middle")
        for v in values
    ]
    middle = (scale.start + scale.end) / 2
    return "".join(parts) + words(middle, bottom + 30, label, anchor="middle", class_="axis")


def y_axis(scale: Scale, left: float, right: float, label: str) -> str:
    """Grid lines and figures of a vertical axis; its name stands above, level, to be read without turning the head."""
    parts = [
        line(left, scale(v), right, scale(v), "grid") + words(left - 6, scale(v) + 4, tick_label(v), anchor="end")
        for v in scale.ticks()
    ]
    return "".join(parts) + words(4.0, min(scale.start, scale.end) - 9, label, class_="axis")


def swatches(entries: Sequence[tuple[str, str]]) -> str:
    """A legend: (drawing 22 x 12, name) each; it wraps where the screen is narrow."""
    items = [
        element("li", element("svg", drawing, viewBox="0 0 22 12", aria_hidden="true"), text(name))
        for drawing, name in entries
    ]
    return element("ul", *items, class_="legend") if items else ""
