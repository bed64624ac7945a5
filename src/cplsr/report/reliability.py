"""Reliability diagrams: is a method right as often as it is sure?"""

from __future__ import annotations

from cplsr.records.results import CalibrationRow
from cplsr.report.figures import BOTTOM, LEFT, RIGHT, TOP, WIDTH, axes, chart, hint, label, line, path, style
from cplsr.report.markup import element, number
from cplsr.report.scales import Scale

HEIGHT = 330.0


def reliability_chart(row: CalibrationRow, series: int) -> str:
    """Accuracy over confidence: on the diagonal a method is as good as it says.

    The larger a point, the more queries are in its bin; bins without any are left out.
    """
    x, y = Scale(0.0, 1.0, LEFT, WIDTH - RIGHT), Scale(0.0, 1.0, HEIGHT - BOTTOM, TOP)
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
        HEIGHT,
        axes(x, y, "confidence", "accuracy"),
        line(x(0.0), y(0.0), x(1.0), y(1.0), "reference"),
        element("path", d=curve, class_=f"line {style(series)}"),
        *points,
        label(WIDTH - 18, y(0.05), f"ECE {error}", anchor="end", class_="strong"),
        title=f"Reliability of {row.method} on {row.target}",
        description=f"Expected calibration error {error}.",
        caption=f"{row.method}, temperature {row.temperature:g}",
    )
