"""Pieces of images against bilinear weights written out."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.data.augment import RATIO, augmented, color_jitter, crop_boxes, cut, flip


def literal_piece(image: torch.Tensor, top: float, left: float, height: float, width: float) -> torch.Tensor:
    """Every pixel of the enlarged piece from the four around its place in the image."""
    _, rows, columns = image.shape
    piece = torch.zeros_like(image)
    for i in range(rows):
        for j in range(columns):
            y = min(max((top + height * (i + 0.5) / rows) * rows - 0.5, 0), rows - 1)
            x = min(max((left + width * (j + 0.5) / columns) * columns - 0.5, 0), columns - 1)
            up, far = math.floor(y), math.floor(x)
            down, right = min(up + 1, rows - 1), min(far + 1, columns - 1)
            upper = (1 - (x - far)) * image[:, up, far] + (x - far) * image[:, up, right]
            lower = (1 - (x - far)) * image[:, down, far] + (x - far) * image[:, down, right]
            piece[:, i, j] = (1 - (y - up)) * upper + (y - up) * lower
    return piece


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 1000), smallest=st.floats(0.02, 0.5), more=st.floats(0, 0.5))
def test_cut_is_bilinear(seed: int, smallest: float, more: float):
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(2, 3, 6, 6, generator=generator, dtype=torch.float64)
    boxes = crop_boxes(2, (smallest, smallest + more), generator).double()
    wanted = torch.stack([literal_piece(image, *box.tolist()) for image, box in zip(images, boxes, strict=True)])
    torch.testing.assert_close(cut(images, boxes), wanted, atol=1e-9, rtol=0)


def test_a_crop_is_an_enlarged_piece_before_its_colors_and_sides_change():
    images = torch.randint(256, (3, 3, 6, 6), generator=torch.Generator().manual_seed(1)).byte()
    stream = torch.Generator().manual_seed(2)
    boxes = crop_boxes(3, (0.08, 1.0), stream)
    pieces = torch.stack([literal_piece(i / 255, *box.tolist()) for i, box in zip(images, boxes, strict=True)])
    wanted = 255 * flip(color_jitter(pieces, 0.4, stream), stream)
    found = augmented(images, "crop", torch.Generator().manual_seed(2))
    assert found.dtype == torch.uint8
    torch.testing.assert_close(found.float(), wanted, atol=0.501, rtol=0)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 1000), smallest=st.floats(0.01, 1), more=st.floats(0, 1))
def test_boxes_are_inside_and_as_large_as_asked(seed: int, smallest: float, more: float):
    largest = min(1.0, smallest + more)
    top, left, height, width = crop_boxes(50, (smallest, largest), torch.Generator().manual_seed(seed)).unbind(1)
    for begin, length in ((top, height), (left, width)):
        assert (begin >= 0).all()
        assert (length > 0).all()
        assert (begin + length <= 1 + 1e-6).all()
    inside = (height < 1) & (width < 1)  # a box that did not fit was cut off, and is smaller than it was drawn
    area = (height * width)[inside]
    assert (area >= smallest - 1e-5).all()
    assert (area <= largest + 1e-5).all()
    stretch = (width / height)[inside]
    assert (stretch <= RATIO + 1e-4).all()
    assert (stretch >= 1 / RATIO - 1e-4).all()


def test_the_whole_image_is_itself():
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(cut(images, torch.tensor([[0.0, 0.0, 1.0, 1.0]] * 2)), images)


@pytest.mark.parametrize(("box", "corner"), [((0.0, 0.0, 0.5, 0.5), (0, 0)), ((0.5, 0.0, 0.5, 0.5), (1, 0))])
def test_a_quarter_is_that_quarter(box: tuple[float, ...], corner: tuple[int, int]):
    """An image of four plain quarters: each quarter, cut out, is plain but for the seam."""
    image = torch.arange(4.0).view(2, 2).repeat_interleave(4, 0).repeat_interleave(4, 1).expand(1, 3, 8, 8)
    piece = cut(image.contiguous(), torch.tensor([box]))
    assert (piece[..., 2:6, 2:6] == image[0, 0, corner[0] * 4, corner[1] * 4]).all()
