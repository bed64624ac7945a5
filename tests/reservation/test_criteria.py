import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.gaussians import gaussians_of

from cplsr.errors import InputError
from cplsr.reservation.candidates import base_novel, mix_classes, mixed_covariance, mixed_factors, novel_novel
from cplsr.reservation.statistics import ClassGaussians

pytestmark = pytest.mark.filterwarnings("ignore:.*classes have no more embeddings")


def literal_novel_novel(prototypes: torch.Tensor) -> list[float]:
    """Eq. 9-11, entry by entry."""
    scores = []
    for i, p in enumerate(prototypes.tolist()):
        others = [q for j, q in enumerate(prototypes.tolist()) if j != i]
        scores.append(sum(math.fsum(x * y for x, y in zip(p, q, strict=True)) for q in others))
    return scores


def literal_base_novel(gaussians: ClassGaussians, mean: torch.Tensor, covariance: torch.Tensor) -> float:
    """Eq. 12 with its pseudo-inverse, one base class after the other."""
    divergences = []
    for k in range(gaussians.moments.classes):
        base_covariance = gaussians.covariance(k)
        inverse = sharp_inverse(covariance)
        gap = (mean - gaussians.means[k]).numpy().astype(np.longdouble)
        log_ratio = torch.linalg.slogdet(covariance).logabsdet - torch.linalg.slogdet(base_covariance).logabsdet
        trace = np.trace(inverse @ base_covariance.numpy())
        divergences.append(float(trace + gap @ inverse @ gap + log_ratio.item() - gaussians.moments.dim) / 2)
    return math.fsum(divergences)


def sharp_inverse(covariance: torch.Tensor) -> np.ndarray:
    """The pseudo-inverse, sharpened by a Newton step in extended precision.

    On its own it is off by up to 2e-8 where the condition number is 1e8: too blunt to measure anything against.
    """
    matrix = covariance.numpy().astype(np.longdouble)
    inverse = torch.linalg.pinv(covariance, hermitian=True).numpy().astype(np.longdouble)
    return inverse @ (2 * np.eye(len(matrix), dtype=np.longdouble) - matrix @ inverse)


def gaussians_with_condition(seed: int, classes: int, dim: int, condition: float, rank: int) -> ClassGaussians:
    """Classes of `rank` + 1 images whose covariances reach from the ridge up to ridge · condition."""
    generator = torch.Generator().manual_seed(seed)
    parts, ridge = [], 1e-3
    for _ in range(classes):
        axes = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64)).Q[:rank]
        spread = ridge * condition ** torch.linspace(0, 1, rank, dtype=torch.float64)
        noise = torch.randn(rank + 1, rank, generator=generator, dtype=torch.float64)
        centered = noise - noise.mean(0)
        white = torch.linalg.qr(centered).Q * math.sqrt(rank)  # covariance exactly I
        center = torch.randn(dim, generator=generator, dtype=torch.float64)
        parts.append(white * spread.sqrt() @ axes + center)
    labels = torch.arange(classes).repeat_interleave(rank + 1)
    return gaussians_of(torch.cat(parts), labels, ridge=ridge)


def assert_same_ranking(scores: torch.Tensor, expected: torch.Tensor, tolerance: float) -> None:
    """The order agrees wherever two expected scores are further apart than the tolerance."""
    ranked = expected[scores.argsort()]
    for earlier, later in pairwise(ranked):
        assert later >= earlier - tolerance * abs(earlier)


@given(
    seed=st.integers(0, 10_000),
    classes=st.integers(2, 8),
    dim=st.integers(2, 24),
    exponent=st.floats(0, 8),
    share=st.floats(0.1, 1),
)
@settings(deadline=None, max_examples=80)
def test_base_novel_is_the_literal_sum(seed, classes, dim, exponent, share):
    rank = max(1, math.ceil(share * dim))  # below 1 the images do not span the space: only the ridge fills it up
    gaussians = gaussians_with_condition(seed, classes, dim, 10**exponent, rank)
    candidates = mix_classes(gaussians, 6, generator=torch.Generator().manual_seed(seed))
    covariances = [mixed_covariance(gaussians, candidates, number) for number in range(6)]
    expected = torch.tensor(
        [literal_base_novel(gaussians, mean, cov) for mean, cov in zip(candidates.means, covariances, strict=True)],
        dtype=torch.float64,
    )
    scores = base_novel(gaussians, candidates.means, mixed_factors(gaussians, candidates))
    torch.testing.assert_close(scores, expected, rtol=1e-8, atol=0)
    assert (scores > 0).all(), "a sum of divergences"
    assert_same_ranking(scores, expected, 1e-8)


def test_base_novel_with_one_wide_matrix():
    gaussians = gaussians_with_condition(0, 3, 96, 1e8, 40)
    candidates = mix_classes(gaussians, 4, generator=torch.Generator().manual_seed(0))
    scores = base_novel(gaussians, candidates.means, mixed_factors(gaussians, candidates))
    for number, score in enumerate(scores.tolist()):
        expected = literal_base_novel(
            gaussians, candidates.means[number], mixed_covariance(gaussians, candidates, number)
        )
        assert score == pytest.approx(expected, rel=1e-8)


def test_base_novel_ignores_where_the_origin_is():
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.randn(60, 4, generator=generator, dtype=torch.float64)
    labels = torch.arange(60) % 3
    scores = []
    for offset in (0.0, 1024.0):
        gaussians = gaussians_of(embeddings + offset, labels)
        candidates = mix_classes(gaussians, 5, generator=torch.Generator().manual_seed(0))
        scores.append(base_novel(gaussians, candidates.means, mixed_factors(gaussians, candidates)))
    torch.testing.assert_close(scores[0], scores[1], rtol=1e-9, atol=1e-9)


@given(seed=st.integers(0, 1000), count=st.integers(1, 12), dim=st.integers(1, 6))
@settings(deadline=None, max_examples=60)
def test_novel_novel_is_the_literal_sum(seed, count, dim):
    prototypes = torch.randn(count, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    expected = torch.tensor(literal_novel_novel(prototypes), dtype=torch.float64)
    torch.testing.assert_close(novel_novel(prototypes), expected, rtol=1e-10, atol=1e-11)
    unit = torch.stack([p / math.sqrt(math.fsum(x * x for x in p.tolist())) for p in prototypes])
    expected = torch.tensor(literal_novel_novel(unit), dtype=torch.float64)
    torch.testing.assert_close(novel_novel(prototypes, similarity="cosine"), expected, rtol=1e-10, atol=1e-11)


def test_novel_novel_leaves_its_input_alone():
    prototypes = torch.ones(3, 2, dtype=torch.float64)
    assert novel_novel(prototypes).tolist() == [4, 4, 4]
    assert torch.equal(prototypes, torch.ones(3, 2, dtype=torch.float64))


def test_length_matters_to_dot_only():
    prototypes = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], dtype=torch.float64)
    longer = prototypes * torch.tensor([[1.0], [1.0], [9.0]], dtype=torch.float64)
    torch.testing.assert_close(novel_novel(longer, similarity="cosine"), novel_novel(prototypes, similarity="cosine"))
    assert novel_novel(longer)[1] > novel_novel(prototypes)[1]


def test_scores_are_never_nan_or_inf():
    huge = torch.full((3, 2), 1e200, dtype=torch.float64)
    with pytest.raises(InputError, match="novel-novel score is not finite"):
        novel_novel(huge)
    with pytest.raises(InputError, match="has no cosine"):
        novel_novel(huge * 0, similarity="cosine")
    gaussians = gaussians_with_condition(0, 3, 2, 10.0, 2)
    candidates = mix_classes(gaussians, 3, generator=torch.Generator().manual_seed(0))
    with pytest.raises(InputError, match="base-novel score is not finite"):
        base_novel(gaussians, huge, mixed_factors(gaussians, candidates))
