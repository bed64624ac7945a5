"""Colored squares as images, a tiny backbone that tells them apart, and an adapter for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cplsr.adapters.attach import attach
from cplsr.adapters.store import save_adapter
from cplsr.backbones.load import load_backbone

COLORS = {"blue": (40, 60, 200), "green": (40, 190, 60), "red": (200, 50, 40)}


def noisy(color: tuple[int, int, int], generator: np.random.Generator) -> Image.Image:
    pixels = np.asarray(color) + generator.integers(-35, 36, (24, 20, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


@pytest.fixture
def support(tmp_path: Path) -> Path:
    """Four images of each of three colors, a folder each."""
    generator = np.random.default_rng(0)
    for name, color in COLORS.items():
        (tmp_path / "support" / name).mkdir(parents=True)
        for number in range(4):
            noisy(color, generator).save(tmp_path / "support" / name / f"{number}.png")
    return tmp_path / "support"


@pytest.fixture
def query(tmp_path: Path) -> Path:
    """Eleven images at two depths, two of which are no images."""
    generator = np.random.default_rng(1)
    (tmp_path / "query" / "deeper").mkdir(parents=True)
    for number, color in enumerate([*COLORS.values()] * 3):
        place = tmp_path / "query" / ("deeper" if number % 2 else "") / f"{number}.png"
        noisy(color, generator).save(place)
    (tmp_path / "query" / "bad.jpg").write_bytes(b"not an image")
    (tmp_path / "query" / "deeper" / "empty.png").touch()
    (tmp_path / "query" / "notes.txt").write_text("not listed")
    (tmp_path / "query" / ".hidden.png").write_bytes(b"not listed")
    return tmp_path / "query"


@pytest.fixture
def adapter_folder(tmp_path: Path, checkpoint_file: Path) -> Path:
    """A coalescent projection that is not the identity."""
    backbone = load_backbone(checkpoint_file, heads=2)
    attach(backbone, "coalescent", init="near_identity")
    for parameter in backbone.adapter.parameters():
        parameter.data *= 1.5
    return save_adapter(backbone, tmp_path / "run" / "adapter")
