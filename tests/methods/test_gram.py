"""Gram matrices against sums written out."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.methods.afa import gram_difference


def features(seed: int, batch: int, positions: int, channels: int) -> torch.Tensor:
    return torch.randn(batch, positions, channels, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def literal_difference(first: torch.Tensor, second: torch.Tensor) -> float:
    """√(Σ_ij (G_ij − G'_ij)²) / (4 N² M²), the sum over all images, G_ij = Σ_k F_ki F_kj."""
    batch, positions, channels = first.shape
    total = 0.0
    for image in range(batch):
        for i in range(channels):
            for j in range(channels):
                one = sum(float(first[image, k, i] * first[image, k, j]) for k in range(positions))
                two = sum(float(second[image, k, i] * second[image, k, j]) for k in range(positions))
                total += (one - two) ** 2
    return math.sqrt(total) / (4 * channels**2 * positions**2)


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 1000), batch=st.integers(1, 3), positions=st.integers(1, 4), channels=st.integers(1, 4))
def test_difference_is_the_sum_written_out(seed: int, batch: int, positions: int, channels: int):
    first, second = (features(seed + more, batch, positions, channels) for more in (0, 1))
    torch.testing.assert_close(gram_difference(first, second).item(), literal_difference(first, second))


def test_place_does_not_matter_but_channels_do():
    first = features(0, 2, 6, 4)
    moved = first[:, torch.randperm(6, generator=torch.Generator().manual_seed(1))]
    assert gram_difference(first, moved) < 1e-15
    assert gram_difference(first, first.flip(-1)) > 1e-3


def test_equal_features_have_a_gradient_of_zero():
    """A root has none of its own at zero."""
    first = features(0, 2, 6, 4).requires_grad_()
    gram_difference(first, first.detach()).backward()
    assert first.grad.abs().max() == 0
