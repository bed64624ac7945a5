"""Tiny domains, and what an ablation over them needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracles.color_folders import color_folders

from cplsr.ablation.workspace import Setup
from cplsr.settings.training import TrainingSettings


@pytest.fixture
def domains(tmp_path: Path) -> Path:
    """Folders `base` and `target` of six classes each, of six 32-px images: a class is a color."""
    return color_folders(tmp_path / "domains", ("base", "target"), prefix="class ", colors=(60, 190), key=3)


@pytest.fixture
def setup(checkpoint_file: Path, domains: Path) -> Setup:
    return Setup(
        backbone=str(checkpoint_file),
        heads=2,
        base=str(domains / "base"),
        targets=(("T", str(domains / "target")),),
        evaluation_episodes=20,
        evaluation_query=2,
        workers=0,
        threads=1,
        device="cpu",
    )


@pytest.fixture
def common() -> TrainingSettings:
    return TrainingSettings(
        way=2,
        query=2,
        episodes=3,
        lr=1e-3,
        validation_episodes=4,
        validate_every=0,
        candidates=6,
        pseudo_episodes=2,
        shrinkage="ledoit_wolf",
    )
