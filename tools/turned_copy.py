"""Copy a folder of class folders with every image turned by 0, 90, 180 or 270 degrees at random.

`python tools/turned_copy.py FOLDER OUT [--per-class N] [--seed N]`. Of a domain in which images have an upright
position this makes one in which they have none; `docs/results.md` uses it on validation classes.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from PIL import Image

from cplsr.data.image_file import is_image_name
from cplsr.files import new_folder

TURNS = (None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)


def turned_copy(folder: Path, out: Path, *, per_class: int | None = None, seed: int = 0) -> int:
    """Write the turned images as PNG files, whole or not at all; returns how many."""
    generator = random.Random(seed)
    written: dict[str, int] = {}
    with new_folder(out) as place:
        for path in sorted(folder.rglob("*")):
            if not path.is_file() or not is_image_name(path.name):
                continue
            turn = TURNS[generator.randrange(4)]  # drawn for every image, so that a smaller copy is part of a larger
            name = path.relative_to(folder).parts[0]
            if per_class is not None and written.get(name, 0) >= per_class:
                continue
            written[name] = written.get(name, 0) + 1
            target = place / path.relative_to(folder).with_suffix(".png")
            target.parent.mkdir(parents=True, exist_ok=True)
            image = Image.open(path).convert("RGB")
            (image if turn is None else image.transpose(turn)).save(target)
    return sum(written.values())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--per-class", type=int)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if not given.folder.is_dir():
        parser.error(f"{given.folder} is no folder: give one with a folder per class")
    print(f"{turned_copy(given.folder, given.out, per_class=given.per_class, seed=given.seed)} images in {given.out}")
