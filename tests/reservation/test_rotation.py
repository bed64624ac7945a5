import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.errors import InputError
from cplsr.reservation.rotation import add_rotations, rotate_images, rotate_labels, split_rotated_episode


def literal_rotation(image: torch.Tensor, turns: int) -> torch.Tensor:
    """Counter-clockwise quarter turns, pixel by pixel: what was in the last column becomes the first row."""
    size = image.shape[-1]
    for _ in range(turns):
        turned = torch.empty_like(image)
        for row in range(size):
            for column in range(size):
                turned[:, row, column] = image[:, column, size - 1 - row]
        image = turned
    return image


def test_a_quarter_turn_is_counter_clockwise():
    image = torch.tensor([[[[1, 2], [3, 4]]]])
    assert rotate_images(image)[1, 0].tolist() == [[2, 4], [1, 3]]


@given(seed=st.integers(0, 1000), count=st.integers(1, 4), size=st.integers(1, 5), classes=st.integers(3, 9))
@settings(deadline=None, max_examples=25)
def test_images_and_labels(seed, count, size, classes):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (count, 3, size, size), generator=generator, dtype=torch.uint8)
    labels = torch.randint(3, (count,), generator=generator)
    rotated = add_rotations(images, labels, classes)
    assert rotated.images.dtype == torch.uint8
    for turns in range(4):
        for i in range(count):
            assert torch.equal(rotated.images[turns * count + i], literal_rotation(images[i], turns))
            assert rotated.labels[turns * count + i] == turns * classes + labels[i]


def test_labels_run_to_four_times_the_classes():
    assert rotate_labels(torch.arange(5), 5).tolist() == list(range(20))
    for labels in ([5], [-1]):
        with pytest.raises(InputError, match="with 5 classes"):
            rotate_labels(torch.tensor(labels), 5)


def test_images_must_be_square():
    with pytest.raises(InputError, match=r"2 × 3 .*square"):
        rotate_images(torch.zeros(1, 3, 2, 3))


@given(way=st.integers(1, 10), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_the_split_is_a_partition(way, seed):
    split = split_rotated_episode(way, generator=torch.Generator().manual_seed(seed))
    assert split.shape == (4, way)
    assert sorted(split.flatten().tolist()) == list(range(4 * way))
    assert torch.equal(split, split_rotated_episode(way, generator=torch.Generator().manual_seed(seed)))


def test_the_split_is_random():
    generator = torch.Generator().manual_seed(0)
    first = torch.stack([split_rotated_episode(2, generator=generator)[0, 0] for _ in range(4000)])
    counts = torch.bincount(first, minlength=8).double()
    assert ((counts - 500) ** 2 / 500).sum() < 27  # chi-squared with 7 degrees of freedom: p < 4e-4


def test_no_classes_to_split():
    with pytest.raises(InputError, match="way is 0"):
        split_rotated_episode(0, generator=torch.Generator())
