"""A tiny base domain that training can learn something from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cplsr.data.domain import Domain
from cplsr.data.open import open_domain


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten classes of eight 36-px images: a class is the direction and width of its stripes."""
    root = tmp_path_factory.mktemp("tiny") / "domain"
    random = np.random.Generator(np.random.Philox(key=7))
    rows, columns = np.mgrid[0:36, 0:36]
    for number in range(10):
        folder = root / f"class {number}"
        folder.mkdir(parents=True)
        angle, width = np.pi * number / 10, 3 + number % 3
        for image in range(8):
            stripes = np.sin((rows * np.sin(angle) + columns * np.cos(angle)) / width + random.uniform(0, 6))
            pixels = 128 + 80 * stripes[..., None] * random.uniform(0.4, 1, 3) + random.normal(0, 10, (36, 36, 3))
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{image}.png")
    return root


@pytest.fixture
def tiny(tiny_folder: Path) -> Domain:
    return open_domain(tiny_folder)
