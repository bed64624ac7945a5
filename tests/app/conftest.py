"""Pictures as a visitor has them, and a session on a small random backbone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from oracles.color_folders import Paint
from PIL import Image

from cplsr.app.session import Session, Shared, new_session
from cplsr.backbones.backbone import Backbone

COLORS = {"red": (200, 40, 40), "green": (40, 190, 60), "blue": (40, 60, 200)}


@pytest.fixture
def paint(tmp_path: Path) -> Paint:
    """Writes noisy pictures of one color, each different from all others."""
    written = 0

    def write(color: str, count: int, folder: str = "pictures") -> list[Path]:
        nonlocal written
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        files = []
        for _ in range(count):
            noise = np.random.default_rng(written).integers(-40, 40, size=(40, 60, 3))
            pixels = np.clip(np.array(COLORS[color]) + noise, 0, 255).astype(np.uint8)
            files.append(place / f"{color}-{written}.png")
            Image.fromarray(pixels).save(files[-1])
            written += 1
        return files

    return write


@pytest.fixture
def session(backbone: Backbone) -> Session:
    return new_session(Shared(backbone))
