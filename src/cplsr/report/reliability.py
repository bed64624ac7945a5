"""Reliability diagrams: is a method right as often as it is sure?"""

from __future__ import annotations

from collections.abc import Sequence

from cplsr.report.figures import WIDTH, line, picture, style, words, x_axis, y_axis
from cplsr.report.markup import element, number, text
from cplsr.report.scales import Scale

HEIGHT, LEFT, TOP, BOTTOM = 330.0, 42.0, 26.0, 40.0


def reliability_chart(
    bins: Sequence[tuple[float, float, float]], *, title: str, description: str, ece: float, series: int
) -> str:
    """Accuracy over confidence, (confidence, accuracy, share of the queries) each bin in [0, 1].

    On the diagonal a method is as good as it says; the larger a point, the more queries are in its bin.
    """
    horizontal, vertical = Scale(0.0, 1.0, LEFT, WIDTH - 12), Scale(0.0, 1.0, HEIGHT - BOTTOM, TOP)
    axes = x_axis(horizontal, TOP, HEIGHT - BOTTOM, "confidence") + y_axis(vertical, LEFT, WIDTH - 12, "accuracy")
    diagonal = line(horizontal(0.0), vertical(0.0), horizontal(1.0), vertical(1.0), "reference")
    filled = [entry for entry in bins if entry[2] > 0]
    path = "M" + "L".join(f"{horizontal(c):.1f} {vertical(a):.1f}" for c, a, _ in filled) if filled else "M0 0"
    curve = element("path", d=path, class_=f"line {style(series)}")
    points = []
    for confidence, accuracy, share in filled:
        says = f"sure {confidence:.0%}, right {accuracy:.0%}, {share:.1%} of the queries"
        gap = line(*(horizontal(confidence), vertical(confidence), horizontal(confidence), vertical(accuracy)), "gap")
        shape = element(
            "circle",
            cx=horizontal(confidence),
            cy=vertical(accuracy),
            r=2 + 7 * share**0.5,
            class_=f"bubble {style(series)}",
        )
        points.append(element("g", element("title", text(says)), gap, shape))
    corner = words(WIDTH - 18, vertical(0.05), f"ECE {number(100 * ece, 1)} %", anchor="end", class_="strong")
    return picture(WIDTH, HEIGHT, title, description, axes, diagonal, curve, *points, corner)
