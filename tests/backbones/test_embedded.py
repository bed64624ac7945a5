"""The backbone that ships inside the package."""

import json

import torch

from cplsr import attach, load_backbone
from cplsr.backbones.load import EMBEDDED_FILE


def test_it_is_small_and_has_room_for_coalescent_projections():
    assert EMBEDDED_FILE.stat().st_size <= 12_000_000
    backbone = load_backbone("embedded")
    assert backbone.layers >= 6
    assert backbone.head_dim in (32, 64)
    assert backbone.dtype == torch.float32
    attach(backbone, "coalescent")
    assert len([p for p in backbone.parameters() if p.requires_grad]) == backbone.layers


def test_its_description_says_how_it_was_made():
    told = json.loads(EMBEDDED_FILE.with_name("embedded.safetensors.json").read_text())
    assert {"recipe", "teacher", "images", "views", "cooled"} <= told.keys()
    assert EMBEDDED_FILE.with_name("README.md").is_file()


def test_it_takes_other_sizes():
    for size in (64, 224):
        assert load_backbone("embedded", size)(torch.zeros(1, 3, size, size)).shape == (1, 192)
