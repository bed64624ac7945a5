"""What every test gets: no network, one thread, caches of its own, and small random backbones."""

from __future__ import annotations

import inspect
import os
import re
import socket
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

import hypothesis
import pytest
import torch
from oracles.random_vit import FAMILY_CONFIGS, random_checkpoint
from safetensors.torch import save_file

from cplsr.backbones.backbone import Backbone
from cplsr.backbones.load import load_backbone

torch.set_num_threads(1)
hypothesis.settings.register_profile("repeatable", derandomize=True)
hypothesis.settings.load_profile("repeatable")


EQUALITY = re.compile(r"torch\.equal|array_equal|assert_same|bit_equal|sha256|fingerprint ==")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that ask for the same bits: `make processors` runs them as on other processors."""
    for item in items:
        if isinstance(item, pytest.Function) and EQUALITY.search(inspect.getsource(item.function)):
            item.add_marker(pytest.mark.exact)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the loopback address may be reached."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a test tried to reach {address[0]}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPLSR_CACHE", str(tmp_path / "cplsr-cache"))


@pytest.fixture
def checkpoint_file(tmp_path: Path) -> Path:
    """A random ViT of 2 layers at 32 px, 64 wide, patch 8, in the key names of timm."""
    path = tmp_path / "vit_random.safetensors"
    save_file(random_checkpoint(dim=64, layers=2, patch=8, image=32), path)
    return path


@pytest.fixture
def backbone(checkpoint_file: Path) -> Backbone:
    """That checkpoint loaded: 2 heads of 32."""
    return load_backbone(checkpoint_file, heads=2)


@pytest.fixture(params=sorted(FAMILY_CONFIGS))
def family_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder saved by transformers, for each family of models in turn."""
    from transformers import AutoModel

    torch.manual_seed(0)
    model = AutoModel.from_config(FAMILY_CONFIGS[request.param]())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path / request.param)
    colors = '{"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}'
    (tmp_path / request.param / "preprocessor_config.json").write_text(colors)
    return tmp_path / request.param


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real images and weights, for the tests that measure on them."""
    place = os.environ.get("CPLSR_REAL_DATA")
    if not place:
        pytest.skip("CPLSR_REAL_DATA is not set")
    return Path(place)
