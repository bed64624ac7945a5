import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.gaussians import gaussians_of

from cplsr.errors import InputError
from cplsr.reservation.candidates import mix_classes, mixed_covariance, mixed_factors
from cplsr.reservation.statistics import ClassGaussians

pytestmark = pytest.mark.filterwarnings("ignore:.*classes have no more embeddings")


def some_gaussians(seed: int, classes: int, dim: int = 4, each: int = 6, **options) -> ClassGaussians:
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(classes * each, dim, generator=generator, dtype=torch.float64)
    return gaussians_of(embeddings, torch.arange(classes * each) % classes, **options)


@given(seed=st.integers(0, 1000), classes=st.integers(2, 6), shrinkage=st.sampled_from(["none", "ledoit_wolf"]))
@settings(deadline=None, max_examples=40)
def test_candidates_are_blends_of_two_distinct_classes(seed, classes, shrinkage):
    gaussians = some_gaussians(seed, classes, shrinkage=shrinkage)
    candidates = mix_classes(gaussians, 8, generator=torch.Generator().manual_seed(seed))
    assert len(candidates) == 8
    for number in range(8):
        a, b, alpha = int(candidates.first[number]), int(candidates.second[number]), float(candidates.weight[number])
        assert a != b
        assert 0 <= a < classes
        assert 0 <= b < classes
        assert 0 <= alpha < 1
        mean = alpha * gaussians.means[a] + (1 - alpha) * gaussians.means[b]  # Eq. 7
        covariance = alpha * gaussians.covariance(a) + (1 - alpha) * gaussians.covariance(b)  # Eq. 8
        torch.testing.assert_close(candidates.means[number], mean, rtol=1e-14, atol=1e-14)
        mixed = mixed_covariance(gaussians, candidates, number)
        torch.testing.assert_close(mixed, covariance, rtol=1e-13, atol=1e-14)
        assert torch.equal(mixed, mixed.T)


def test_every_ordered_pair_is_equally_likely():
    candidates = mix_classes(some_gaussians(0, 4), 12_000, generator=torch.Generator().manual_seed(1))
    counts = torch.bincount(candidates.first * 4 + candidates.second, minlength=16).view(4, 4)
    assert (counts.diagonal() == 0).all()
    off_diagonal = counts[~torch.eye(4, dtype=torch.bool)].double()
    assert ((off_diagonal - 1000) ** 2 / 1000).sum() < 35  # chi-squared with 11 degrees of freedom: p < 3e-4
    ranks = candidates.weight.sort().values - torch.linspace(0, 1, 12_000, dtype=torch.float64)
    assert ranks.abs().max() < 0.02  # Kolmogorov-Smirnov distance from U(0, 1): p < 2e-4


def test_the_generator_decides_everything():
    gaussians = some_gaussians(0, 5)
    one, same, other = (mix_classes(gaussians, 20, generator=torch.Generator().manual_seed(s)) for s in (3, 3, 4))
    assert torch.equal(one.means, same.means)
    assert not torch.equal(one.means, other.means)


def test_selection_keeps_rows_together():
    candidates = mix_classes(some_gaussians(0, 5), 6, generator=torch.Generator().manual_seed(0))
    chosen = candidates[torch.tensor([4, 1])]
    for name in ("first", "second", "weight", "means"):
        assert torch.equal(getattr(chosen, name), getattr(candidates, name)[[4, 1]])


def test_factors_are_cholesky_factors():
    gaussians = some_gaussians(0, 5)
    candidates = mix_classes(gaussians, 6, generator=torch.Generator().manual_seed(0))
    factors = mixed_factors(gaussians, candidates)
    assert torch.equal(factors, factors.tril())
    for number, factor in enumerate(factors):
        torch.testing.assert_close(factor @ factor.T, mixed_covariance(gaussians, candidates, number))


def test_no_candidates():
    with pytest.raises(InputError, match="0 candidates"):
        mix_classes(some_gaussians(0, 3), 0, generator=torch.Generator())
