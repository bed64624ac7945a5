"""Domains of plain colors, small enough to analyze in a moment."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from oracles.color_reader import ColorReader

from cplsr.data.domain import Domain


@pytest.fixture
def color_domain() -> Callable[..., Domain]:
    def make(name="colors", classes=4, per_class=5, bad=(), seed=0, flags=()):
        generator = np.random.default_rng(seed)
        labels = np.arange(classes * per_class) % classes
        centers = generator.integers(60, 190, (classes, 3))
        colors = np.clip(centers[labels] + generator.integers(-30, 30, (len(labels), 3)), 0, 255)
        identities = tuple(f"{label}/{index}.png?{name}{seed}" for index, label in enumerate(labels))
        names = tuple(f"color {c}" for c in range(classes))
        return Domain(name, names, labels, identities, ColorReader(colors, frozenset(bad), noise=30), flags=flags)

    return make
