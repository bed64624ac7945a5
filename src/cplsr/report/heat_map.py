"""A matrix as shades of one color: confusions of classes, heads of a transformer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cplsr.report.figures import LETTER, WIDTH, label_width, picture, shorten, words
from cplsr.report.markup import element, text

SHADES = 10
LETTERS, LARGEST, SMALLEST, MANY = 18, 38.0, 13.0, 14


def heat_map(
    values: Sequence[Sequence[float | None]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str,
    description: str,
    row_axis: str,
    column_axis: str,
    high: float,
    digits: int,
) -> str:
    """Cells from 0 (the page's own color) to `high`, with their figures where there is room for them.

    Where there are many columns their names are left to the rows, which stand in the same order, and cells of a
    shade are drawn together, which keeps a hundred classes small.
    """
    left = max(label_width(rows, LETTERS), LETTER * len(row_axis) + 8)
    cell = min(LARGEST, max(SMALLEST, (WIDTH - left - 4) / max(1, len(columns))))
    few = len(columns) <= MANY
    letters = max((len(shorten(name, LETTERS)) for name in columns), default=0)
    slanted = few and letters * LETTER > cell
    top = 22 + (LETTER * 0.75 * letters + 8 if slanted else 14.0 if few else 0.0)
    parts = [words(4.0, 12.0, f"{row_axis} ↓   {column_axis} →", class_="axis")]
    for i, name in enumerate(rows):
        y = top + cell * (i + 0.5) + 4
        parts.append(words(left - 6, y, shorten(name, LETTERS), anchor="end", title=name))
    if few:
        parts += [_column_name(name, left + cell * (j + 0.5), top - 6, slanted) for j, name in enumerate(columns)]
    parts.append(
        _cells(values, rows, columns, left, top, cell, high, digits) if few else _shades(values, left, top, cell, high)
    )
    frame = element("rect", x=left, y=top, width=cell * len(columns), height=cell * len(rows), class_="frame")
    room = LETTER * 0.75 * letters if slanted else 0.0
    width = max(WIDTH, left + cell * len(columns) + 6 + max(0.0, room - cell))
    return picture(width, top + cell * len(rows) + 8, title, description, *parts, frame)


def shade(value: float, high: float) -> int:
    """Which of the shades 0 to 10 a figure gets."""
    return round(SHADES * min(1.0, max(0.0, value / high))) if high > 0 else 0


def _column_name(name: str, x: float, y: float, slanted: bool) -> str:
    short = shorten(name, LETTERS)
    if not slanted:
        return words(x, y, short, anchor="middle", title=name)
    return element("g", words(0.0, 0.0, short, title=name), transform=f"translate({x:.1f} {y:.1f}) rotate(-48)")


def _cells(
    values: Sequence[Sequence[float | None]],
    rows: Sequence[str],
    columns: Sequence[str],
    left: float,
    top: float,
    cell: float,
    high: float,
    digits: int,
) -> str:
    parts = []
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            if value is None or not math.isfinite(value):
                continue
            level = shade(value, high)
            written = f"{value:.{digits}f}"
            x, y = left + cell * j, top + cell * i
            hint = element("title", text(f"{rows[i]}, {columns[j]}: {written}"))
            square = element("rect", x=x, y=y, width=cell, height=cell, class_=f"heat h{level}")
            dark = "cell on" if level > SHADES // 2 else "cell"
            figure = (
                words(x + cell / 2, y + cell / 2 + 4, written, anchor="middle", class_=dark)
                if cell > LETTER * len(written) + 2
                else ""
            )
            parts.append(element("g", hint, square, figure))
    return "".join(parts)


def _shades(values: Sequence[Sequence[float | None]], left: float, top: float, cell: float, high: float) -> str:
    squares: dict[int, list[str]] = {}
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            if value is not None and math.isfinite(value) and shade(value, high):
                start = f"M{left + cell * j:.1f} {top + cell * i:.1f}h{cell:.1f}v{cell:.1f}h-{cell:.1f}z"
                squares.setdefault(shade(value, high), []).append(start)
    return "".join(
        element("path", d="".join(paths), class_=f"heat h{level}") for level, paths in sorted(squares.items())
    )
