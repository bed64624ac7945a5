import itertools
import math

import numpy as np
import pytest

from cplsr.data.procedural.blades import BLADES
from cplsr.data.procedural.canvas import CANVAS, Frame
from cplsr.data.procedural.silhouettes import SILHOUETTES, bar, box, disk, joined, lobed, oval, polygon, without

WIDE = CANVAS.placed(scale=0.8)
X, Y = CANVAS.x, CANVAS.y


def area(distance: np.ndarray, frame: Frame = CANVAS) -> float:
    return float(frame.cover(distance).mean()) * 4


@pytest.mark.parametrize(
    ("distance", "inside"),
    [
        (disk(CANVAS, 0.2, -0.1, 0.5), np.hypot(X - 0.2, Y + 0.1) < 0.5),
        (oval(CANVAS, -0.1, 0.2, 0.7, 0.3), ((X + 0.1) / 0.7) ** 2 + ((Y - 0.2) / 0.3) ** 2 < 1),
        (box(CANVAS, 0.1, 0.2, 0.5, 0.3, 0.0), (np.abs(X - 0.1) < 0.5) & (np.abs(Y - 0.2) < 0.3)),
        (polygon(CANVAS, (-0.6, -0.6), (0.61, -0.6), (-0.6, 0.61)), (X > -0.6) & (Y > -0.6) & (X + Y < 0.01)),
        (joined(X, Y), (X < 0) | (Y < 0)),
        (without(X, Y), (X < 0) & (Y > 0)),
    ],
)
def test_signed_distances_are_negative_exactly_inside(distance: np.ndarray, inside: np.ndarray) -> None:
    assert np.array_equal(distance < 0, inside)


def test_a_bar_is_every_point_near_a_segment() -> None:
    start, end = np.array([-0.5, 0.4]), np.array([0.3, -0.2])
    steps = start + np.linspace(0, 1, 400)[:, None] * (end - start)
    points = np.stack([X, Y], axis=-1)[::7, ::7]
    nearest = np.linalg.norm(points[:, :, None] - steps, axis=-1).min(axis=-1)
    np.testing.assert_allclose(bar(CANVAS, (-0.5, 0.4), (0.3, -0.2), 0.1)[::7, ::7], nearest - 0.1, atol=1e-3)


def test_a_rosette_has_as_many_lobes_as_asked_for() -> None:
    distance = lobed(CANVAS, 5, 0.4)
    turn = np.linspace(0, 2 * math.pi, 720, endpoint=False)
    rows, columns = ((np.array([np.sin(turn), np.cos(turn)]) * 0.8 + 1) / 2 * len(X)).astype(int)
    inside = distance[rows, columns] < 0
    assert int((np.diff(inside.astype(int), append=inside[:1].astype(int)) == 1).sum()) == 5


@pytest.mark.parametrize("name", SILHOUETTES)
def test_a_silhouette_fills_its_frame_and_stays_inside(name: str) -> None:
    distance = SILHOUETTES[name](WIDE)
    assert np.isfinite(distance).all()
    inside = WIDE.cover(distance) > 0.5
    assert 0.08 < inside.mean() < 0.6
    assert not inside[[0, -1]].any()
    assert not inside[:, [0, -1]].any()


def test_no_two_silhouettes_are_alike() -> None:
    shapes = {name: WIDE.cover(outline(WIDE)) > 0.5 for name, outline in SILHOUETTES.items()}
    for (one, first), (other, second) in itertools.combinations(shapes.items(), 2):
        assert (first & second).sum() / (first | second).sum() < 0.9, (one, other)


@pytest.mark.parametrize("name", BLADES)
def test_a_blade_has_tissue_veins_and_a_stalk(name: str) -> None:
    blade = BLADES[name](WIDE)
    inside = blade.distance < 0
    assert 0.1 < inside.mean() < 0.6
    assert 0.02 < blade.veins[inside].mean() < 0.6
    assert blade.veins.min() >= 0
    assert blade.veins.max() <= 1
    assert (blade.stalk < 0).any()
