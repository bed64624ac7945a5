"""Folders of small images whose classes are colors under noise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from cplsr.data.domain import Domain
from cplsr.data.open import open_domain

Paint = Callable[..., list[Path]]
"""Writes pictures of one color, as the fixture `paint` of the page's tests does."""


def noise_folders(root: Path, classes: int, images: int, step: int) -> Domain:
    """A domain of noise, 36 px wide; each class is `step` levels brighter than the one before."""
    random = np.random.Generator(np.random.Philox(key=7))
    for number in range(classes):
        (root / str(number)).mkdir(parents=True)
        for image in range(images):
            pixels = random.integers(0, 256, (36, 36, 3)) // 2 + step * number
            Image.fromarray(pixels.astype(np.uint8)).save(root / str(number) / f"{image}.png")
    return open_domain(root)


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
