"""A backbone and a domain small enough to count calls on."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from oracles.color_reader import ColorReader
from oracles.random_vit import tiny_vit

from cplsr.backbones.backbone import Backbone
from cplsr.data.domain import Domain


@dataclass(frozen=True)
class CountingReader:
    """Another reader that notes which images were read."""

    reader: ColorReader
    read: list

    def __call__(self, index):
        self.read.append(index)
        return self.reader(index)


def make_domain(images=60, classes=6, bad=(), name="plain", groups=None, seed=0):
    generator = np.random.default_rng(seed)
    labels = np.arange(images) % classes
    centers = generator.integers(40, 215, (classes, 3))
    colors = np.clip(centers[labels] + generator.integers(-40, 40, (images, 3)), 0, 255)
    identities = tuple(f"{label}/{index}.png?{seed}" for index, label in enumerate(labels))
    names = tuple(f"color {c}" for c in range(classes))
    return Domain(name, names, labels, identities, ColorReader(colors, frozenset(bad)), groups=groups)


class CountingBackbone(Backbone):
    """Counts the images that went through it."""

    seen = 0

    def forward(self, images):
        """Embed and count."""
        self.seen += len(images)
        return super().forward(images)


@pytest.fixture
def backbone():
    return CountingBackbone(tiny_vit(), source="tiny", mean=(0.5,) * 3, std=(0.5,) * 3)


@pytest.fixture
def depth_backbone():
    """The same weights, read at every block or at some."""

    def make(layers=None):
        colors = {"mean": (0.5,) * 3, "std": (0.5,) * 3}
        return CountingBackbone(tiny_vit(), source="tiny", **colors, pooling="depth", layers=layers)

    return make


@pytest.fixture
def counted():
    """A domain and the list of the images that were read from it, in this process."""

    def count(domain):
        reader = CountingReader(domain.reader, [])
        return replace(domain, reader=reader), reader.read

    return count


@pytest.fixture
def plain_domain():
    return make_domain
