"""Folders of small images whose classes are colors under noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def color_folders(root: Path, domains: tuple[str, ...], *, prefix: str, colors: tuple[float, float], key: int) -> Path:
    """Under `root` a folder for each domain, in it six classes of six 32-px images; `colors` is their range."""
    random = np.random.Generator(np.random.Philox(key=key))
    for domain in domains:
        for number in range(6):
            folder = root / domain / f"{prefix}{number}"
            folder.mkdir(parents=True)
            color = random.uniform(*colors, 3)
            for image in range(6):
                pixels = color + random.normal(0, 40, (32, 32, 3))
                Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{image}.png")
    return root
