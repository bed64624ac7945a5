"""A backbone with four places for what acts between stages; the tiny one of two blocks has a single one."""

from pathlib import Path

import pytest
from oracles.random_vit import random_checkpoint
from safetensors.torch import save_file

from cplsr.backbones.backbone import Backbone
from cplsr.backbones.load import load_backbone


@pytest.fixture
def six_blocks(tmp_path: Path) -> Backbone:
    """Six random blocks, 64 wide, at 32 px."""
    save_file(random_checkpoint(dim=64, layers=6, patch=8, image=32), tmp_path / "six.safetensors")
    return load_backbone(tmp_path / "six.safetensors", heads=2)
