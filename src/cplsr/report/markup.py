"""Elements of HTML and SVG as strings; whatever comes from outside is escaped on its way in."""

from __future__ import annotations

import html
import math


def text(content: object) -> str:
    """Anything as text between tags."""
    return html.escape(str(content))


def element(name: str, /, *children: str, **attributes: object) -> str:
    """One element around markup that is finished already.

    attributes: `class_` and `stroke_width` become `class` and `stroke-width`; `None` leaves an attribute out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if children or name not in _VOID:
        return f"<{name}{written}>{''.join(children)}</{name}>"
    return f"<{name}{written}>"


def number(value: float | int | None, digits: int = 2, *, sign: bool = False) -> str:
    """A figure for people; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:+,.{digits}f}" if sign else f"{value:,.{digits}f}"


def significant(value: float | int | None, digits: int = 3) -> str:
    """A figure of unknown size in so many significant digits: 0.0123, 4.56, 294,912."""
    if value is None or not math.isfinite(value):
        return number(value)
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if -5 < size < 7:
        return f"{value:,.{max(0, digits - 1 - size)}f}"
    return f"{value:.{digits - 1}e}"


def listed(names: list[str] | tuple[str, ...], at_most: int = 8) -> str:
    """Names in a sentence: `a`, `a and b`, `a, b and c`, `a, b and 9 more`."""
    shown = list(names)
    if len(shown) > at_most:
        shown = [*shown[: at_most - 1], f"{len(shown) - at_most + 1} more"]
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


_VOID = {"br", "hr", "img", "input", "meta"}


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return html.escape(str(value))
