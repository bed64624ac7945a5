"""One random model of every family, saved once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from oracles.random_vit import FAMILY_CONFIGS


@pytest.fixture(scope="session")
def all_families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders saved by transformers, by family."""
    from transformers import AutoModel

    place = tmp_path_factory.mktemp("families")
    for family, config in FAMILY_CONFIGS.items():
        torch.manual_seed(0)
        model = AutoModel.from_config(config())
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.05 * torch.randn_like(parameter))
        model.save_pretrained(place / family)
        colors = '{"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}'
        (place / family / "preprocessor_config.json").write_text(colors)
    return {family: place / family for family in FAMILY_CONFIGS}
