import itertools

import numpy as np
import pytest

from cplsr.data.procedural.canvas import CANVAS
from cplsr.data.procedural.surfaces import SURFACES


def drawn(name: str, seed: int = 0) -> np.ndarray:
    return SURFACES[name](CANVAS, np.random.default_rng(seed))


@pytest.mark.parametrize("name", SURFACES)
def test_a_surface_is_a_share_and_follows_its_generator(name: str) -> None:
    share = drawn(name)
    assert share.shape == CANVAS.x.shape
    assert share.min() > -0.4
    assert share.max() < 1.4
    assert np.array_equal(share, drawn(name))
    assert not np.array_equal(share, drawn(name, seed=1))


def test_every_surface_has_a_pattern_but_the_plain_one() -> None:
    assert {name for name in SURFACES if drawn(name).std() < 0.1} == {"plain"}


def test_no_two_surfaces_are_alike() -> None:
    for one, other in itertools.combinations(SURFACES, 2):
        assert abs(np.corrcoef(drawn(one).ravel(), drawn(other).ravel())[0, 1]) < 0.7, (one, other)
