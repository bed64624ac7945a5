"""A backbone and a domain small enough to count calls on."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from transformers import ViTConfig, ViTModel

from cplsr.backbones.backbone import Backbone
from cplsr.data.domain import Domain, UnreadableImageError


@dataclass(frozen=True)
class PlainReader:
    """Image i is one color; images in `bad` cannot be read."""

    colors: np.ndarray
    bad: frozenset = frozenset()

    def __call__(self, index):
        if index in self.bad:
            raise UnreadableImageError("broken on purpose")
        return Image.new("RGB", (20, 20), tuple(int(value) for value in self.colors[index]))


def make_domain(images=60, classes=6, bad=(), name="plain", groups=None, seed=0):
    generator = np.random.default_rng(seed)
    labels = np.arange(images) % classes
    centers = generator.integers(40, 215, (classes, 3))
    colors = np.clip(centers[labels] + generator.integers(-40, 40, (images, 3)), 0, 255)
    identities = tuple(f"{label}/{index}.png?{seed}" for index, label in enumerate(labels))
    names = tuple(f"color {c}" for c in range(classes))
    return Domain(name, names, labels, identities, PlainReader(colors, frozenset(bad)), groups=groups)


class CountingBackbone(Backbone):
    """Counts the images that went through it."""

    seen = 0

    def forward(self, images):
        """Embed and count."""
        self.seen += len(images)
        return super().forward(images)


@pytest.fixture
def backbone():
    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=16,
        patch_size=8,
        initializer_range=0.3,
    )
    torch.manual_seed(0)
    model: nn.Module = ViTModel(config, add_pooling_layer=False)
    return CountingBackbone(model, source="tiny", mean=(0.5,) * 3, std=(0.5,) * 3)


@pytest.fixture
def plain_domain():
    return make_domain
