"""Images as points in two dimensions, every class with a color and a shape."""

from __future__ import annotations

from collections.abc import Sequence

from cplsr.records.analysis import Panel
from cplsr.report.figures import chart, hint, style, swatches
from cplsr.report.markup import element
from cplsr.report.scales import has_place, scale_of

SIDE = 320.0
SHAPES = (
    "M{x} {y}m-2.4 0a2.4 2.4 0 1 0 4.8 0a2.4 2.4 0 1 0-4.8 0",  # disc
    "M{x} {y}m-2.2-2.2h4.4v4.4h-4.4z",  # square
    "M{x} {y}m0-3l3 5.2h-6z",  # triangle
    "M{x} {y}m0-3.2l3.2 3.2l-3.2 3.2l-3.2-3.2z",  # diamond
    "M{x} {y}m-3-1h2v-2h2v2h2v2h-2v2h-2v-2h-2z",  # plus
)
"""As many shapes as have no divisor in common with the number of colors: 40 classes before a look is used again."""


def scatter_chart(panel: Panel) -> str:
    """The images of a domain at one stage; all points of a class are one path, so that thousands stay small."""
    horizontal, vertical = scale_of(panel.x, 6.0, SIDE - 6), scale_of(panel.y, SIDE - 6, 6.0)
    parts = [element("rect", x=1, y=1, width=SIDE - 2, height=SIDE - 2, class_="frame")]
    for label, name in enumerate(panel.classes):
        pixels = [
            (f"{horizontal(x):.1f}", f"{vertical(y):.1f}")
            for x, y, own in zip(panel.x, panel.y, panel.labels, strict=True)
            if own == label and has_place(x) and has_place(y)
        ]
        if pixels:
            shapes = "".join(SHAPES[label % len(SHAPES)].format(x=x, y=y) for x, y in pixels)
            parts.append(element("path", hint(f"{name}: {len(pixels)}"), d=shapes, class_=f"dot {style(label)}"))
    return chart(
        SIDE,
        SIDE,
        *parts,
        title=f"{panel.domain} {panel.stage} adapting",
        description=f"{len(panel.x)} images of {len(panel.classes)} classes.",
        caption=panel.stage,
    )


def scatter_legend(classes: Sequence[str]) -> str:
    """Which look is which class."""
    return swatches(
        [
            (element("path", d=SHAPES[label % len(SHAPES)].format(x=11, y=6), class_=f"dot {style(label)}"), name)
            for label, name in enumerate(classes)
        ]
    )
