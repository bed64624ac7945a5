"""Draw one contact sheet per procedural domain: a row of instances per class, with the class name beside it.

python tools/contact_sheets.py docs/images
python tools/contact_sheets.py sheets --domain leaf --classes 38 --tile 96
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from cplsr.data.procedural import DOMAINS, ProceduralDomain, make_domain
from cplsr.files import new_file

INSTANCES = 6
MARGIN = 10
GAP = 4
INK = (40, 40, 40)


def contact_sheet(domain: ProceduralDomain, *, class_count: int, tile: int | None = None) -> Image.Image:
    """Classes spread evenly over the domain, a row of six pictures each; two blocks of rows when there are many."""
    labels = np.linspace(0, len(domain.classes) - 1, min(class_count, len(domain.classes))).round().astype(int)
    blocks = 2 if len(labels) > 13 else 1
    tile = tile or (56 if blocks == 2 else 72)
    rows = math.ceil(len(labels) / blocks)
    font = ImageFont.load_default(size=13)
    name_width = max(round(font.getlength(domain.classes[label])) for label in labels) + MARGIN
    block_width = name_width + INSTANCES * (tile + GAP) + MARGIN
    sheet = Image.new("RGB", (blocks * block_width + MARGIN, rows * (tile + GAP) + 2 * MARGIN - GAP), "white")
    pen = ImageDraw.Draw(sheet)
    for place, label in enumerate(labels):
        block, row = divmod(place, rows)
        left, top = MARGIN + block * block_width, MARGIN + row * (tile + GAP)
        pen.text((left, top + tile // 2), domain.classes[label], INK, font=font, anchor="lm")
        for column in range(INSTANCES):
            picture = Image.fromarray(domain.render(int(label) * domain.images_per_class + column))
            picture = picture.resize((tile, tile), Image.Resampling.LANCZOS)
            sheet.paste(picture, (left + name_width + column * (tile + GAP), top))
    return sheet


def with_palette(sheet: Image.Image, colors: int) -> Image.Image:
    """The sheet in few colors, fitted to it and dithered: a third of the bytes, and no bands in the skies."""
    palette = sheet.quantize(colors, method=Image.Quantize.MEDIANCUT, kmeans=2)
    return sheet.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)


def main() -> None:
    """Write domain_<name>.png for every domain, or for the one named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--domain", choices=tuple(DOMAINS))
    parser.add_argument("--split", default="train")
    parser.add_argument("--classes", type=int, default=20, help="rows at most")
    parser.add_argument(
        "--tile", type=int, help="side of a picture in pixels (default: 72 if one block of rows, else 56)"
    )
    parser.add_argument("--colors", type=int, default=128, help="size of the palette; fewer colors, smaller file")
    arguments = parser.parse_args()
    for name in [arguments.domain] if arguments.domain else DOMAINS:
        domain = make_domain(name, arguments.split)
        sheet = contact_sheet(domain, class_count=arguments.classes, tile=arguments.tile)
        path = arguments.folder / f"domain_{name}.png"
        with new_file(path, "wb") as stream:
            with_palette(sheet, arguments.colors).save(stream, "PNG", optimize=True)
        print(f"{path}: {sheet.width} x {sheet.height}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
