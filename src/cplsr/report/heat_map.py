"""A matrix as shades of one color: confusions of classes, heads of a transformer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from cplsr.report.figures import LETTER, WIDTH, chart, hint, label, label_width, shorten
from cplsr.report.markup import element

SHADES = 10
LETTERS, LARGEST, SMALLEST, MANY = 18, 38.0, 13.0, 14

Matrix = Sequence[Sequence[float | None]]


def heat_map(
    values: Matrix,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    description: str,
    axis_names: tuple[str, str],
    high: float,
    digits: int,
    caption: str | None = None,
    wide: bool = False,
) -> str:
    """Cells from 0 (the page's own color) to `high`, with their figures where there is room for them.

    Where there are many columns their names are left to the rows, which stand in the same order, and cells of a
    shade are drawn together, which keeps a hundred classes small.
    """
    left = max(label_width(rows, LETTERS), LETTER * len(axis_names[0]) + 8)
    cell = min(LARGEST, max(SMALLEST, (WIDTH - left - 4) / max(1, len(columns))))
    few = len(columns) <= MANY
    longest = LETTER * max((len(shorten(name, LETTERS)) for name in columns), default=0)
    slanted = few and longest > cell
    top = 22 + (longest * 0.75 + 8 if slanted else 14.0 if few else 0.0)
    parts = [label(4.0, 12.0, f"{axis_names[0]} ↓   {axis_names[1]} →", class_="axis")]
    for i, name in enumerate(rows):
        parts.append(label(left - 6, top + cell * (i + 0.5) + 4, name, anchor="end", letters=LETTERS))
    if few:
        parts += [_column_name(name, left + cell * (j + 0.5), top - 6, slanted) for j, name in enumerate(columns)]
        for i, j, value in _known(values):
            name = f"{rows[i]}, {columns[j]}"
            parts.append(_cell(left + cell * j, top + cell * i, cell, f"{value:.{digits}f}", name, shade(value, high)))
    else:
        parts += _shades(values, left, top, cell, high)
    frame = element("rect", x=left, y=top, width=cell * len(columns), height=cell * len(rows), class_="frame")
    overhang = max(0.0, longest * 0.75 - cell) if slanted else 0.0
    width = max(WIDTH, left + cell * len(columns) + 6 + overhang)
    height = top + cell * len(rows) + 8
    return chart(width, height, *parts, frame, title=title, description=description, caption=caption, wide=wide)


def shade(value: float, high: float) -> int:
    """Which of the shades 0 to 10 a figure gets."""
    return round(SHADES * min(1.0, max(0.0, value / high))) if high > 0 else 0


def _column_name(name: str, x: float, y: float, slanted: bool) -> str:
    if not slanted:
        return label(x, y, name, anchor="middle", letters=LETTERS)
    return element("g", label(0.0, 0.0, name, letters=LETTERS), transform=f"translate({x:.1f} {y:.1f}) rotate(-48)")


def _known(values: Matrix) -> Iterator[tuple[int, int, float]]:
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            if value is not None and math.isfinite(value):
                yield i, j, value


def _cell(x: float, y: float, size: float, figure: str, name: str, level: int) -> str:
    square = element("rect", x=x, y=y, width=size, height=size, class_=f"heat h{level}")
    dark = "cell on" if level > SHADES // 2 else "cell"
    room = size > LETTER * len(figure) + 2
    shown = label(x + size / 2, y + size / 2 + 4, figure, anchor="middle", class_=dark) if room else ""
    return element("g", hint(f"{name}: {figure}"), square, shown)


def _shades(values: Matrix, left: float, top: float, cell: float, high: float) -> list[str]:
    squares: dict[int, str] = {}
    for i, j, value in _known(values):
        if level := shade(value, high):
            square = f"M{left + cell * j:.1f} {top + cell * i:.1f}h{cell:.1f}v{cell:.1f}h-{cell:.1f}z"
            squares[level] = squares.get(level, "") + square
    return [element("path", d=d, class_=f"heat h{level}") for level, d in sorted(squares.items())]
