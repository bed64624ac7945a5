"""The Haar transform against its four sums and differences, and back."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.errors import InputError
from cplsr.methods.wavelets import haar2d, inverse_haar2d, pad_to_even


def values_of(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def literal_bands(grid):
    """Four bands of one grid, square by square."""
    bands = []
    for signs in ((1, 1, 1, 1), (1, -1, 1, -1), (1, 1, -1, -1), (1, -1, -1, 1)):
        band = []
        for row in range(0, grid.shape[0], 2):
            squares = [
                [grid[row, column], grid[row, column + 1], grid[row + 1, column], grid[row + 1, column + 1]]
                for column in range(0, grid.shape[1], 2)
            ]
            band.append([sum(s * v.item() for s, v in zip(signs, square, strict=True)) / 2 for square in squares])
        bands.append(torch.tensor(band, dtype=grid.dtype))
    return bands


def test_bands_are_half_the_sums_and_differences_of_every_square():
    values = values_of(2, 3, 4, 6)
    low, high = haar2d(values)
    assert low.shape == (2, 3, 2, 3)
    assert high.shape == (2, 3, 3, 2, 3)
    for image in range(2):
        for channel in range(3):
            bands = literal_bands(values[image, channel])
            torch.testing.assert_close(low[image, channel], bands[0])
            torch.testing.assert_close(high[image, channel], torch.stack(bands[1:]))


def test_each_kind_of_edge_is_in_a_band_of_its_own():
    row = torch.tensor([[1.0, -1.0], [1.0, -1.0]])
    for number, grid in enumerate((row, row.T, row * row.T)):
        low, high = haar2d(grid)
        assert low.item() == 0
        assert high.flatten().tolist() == [2.0 if band == number else 0.0 for band in range(3)]


sides = st.integers(1, 5).map(lambda half: 2 * half)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 3), max_size=2), sides, sides, st.integers(0, 1000))
def test_the_inverse_reconstructs_and_lengths_are_kept(batch, height, width, seed):
    values = values_of(*batch, height, width, seed=seed)
    low, high = haar2d(values)
    torch.testing.assert_close(inverse_haar2d(low, high), values)
    torch.testing.assert_close(low.square().sum() + high.square().sum(), values.square().sum())


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 1000))
def test_any_bands_are_those_of_their_inverse(height, width, seed):
    low, high = values_of(2, height, width, seed=seed), values_of(2, 3, height, width, seed=seed + 1)
    for found, wanted in zip(haar2d(inverse_haar2d(low, high)), (low, high), strict=True):
        torch.testing.assert_close(found, wanted)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 7), st.integers(1, 7))
def test_padding_repeats_the_last_row_and_column_of_odd_sides(height, width):
    values = values_of(2, height, width)
    padded = pad_to_even(values)
    assert padded.shape[1:] == (height + height % 2, width + width % 2)
    for row in range(padded.shape[1]):
        for column in range(padded.shape[2]):
            wanted = values[:, min(row, height - 1), min(column, width - 1)]
            assert torch.equal(padded[:, row, column], wanted)
    torch.testing.assert_close(inverse_haar2d(*haar2d(padded))[:, :height, :width], values)


def test_an_odd_side_is_refused_with_a_way_out():
    with pytest.raises(InputError, match=r"3 x 4 was given: pad it with pad_to_even"):
        haar2d(values_of(3, 4))
