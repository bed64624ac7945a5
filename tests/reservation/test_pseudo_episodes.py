from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.gaussians import covariances, gaussians_of

from cplsr.episodes.streams import Stream, numbered_generator
from cplsr.errors import InputError
from cplsr.reservation.candidates import mix_classes
from cplsr.reservation.pseudo_episodes import (
    PseudoEpisodeStream,
    choose_classes,
    draw_pseudo_episode,
    sample,
)
from cplsr.reservation.statistics import ClassGaussians
from cplsr.settings.training import PseudoEpisodeRecipe


def some_gaussians(seed: int = 0, classes: int = 8, dim: int = 6, **options) -> ClassGaussians:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes * 20) % classes
    centers = 2 * torch.randn(classes, dim, generator=generator, dtype=torch.float64)
    widths = torch.rand(classes, dim, generator=generator, dtype=torch.float64) + 0.2
    noise = torch.randn(classes * 20, dim, generator=generator, dtype=torch.float64)
    return gaussians_of(centers[labels] + noise * widths[labels], labels, **options)


def literal_choice(gaussians: ClassGaussians, recipe: PseudoEpisodeRecipe, seed: int) -> list[int]:
    """Eq. 9-12 as written, on the candidates that the same seed draws; numbers of the kept ones."""
    pool = mix_classes(gaussians, recipe.candidates, generator=torch.Generator().manual_seed(seed))
    prototypes = pool.means
    if recipe.novel_similarity == "cosine":
        prototypes = torch.stack([p / p.square().sum().sqrt() for p in prototypes])
    similarity = prototypes @ prototypes.T
    similarity = similarity - similarity * torch.eye(len(similarity), dtype=torch.float64)
    scores = similarity @ torch.ones(len(similarity), dtype=torch.float64)
    kept = sorted(range(len(pool)), key=lambda number: float(scores[number]))[: recipe.survivors * recipe.way]
    divergence = {}
    for number in kept:
        a, b, alpha = pool.first[number], pool.second[number], pool.weight[number]
        covariance = alpha * covariances(gaussians)[a] + (1 - alpha) * covariances(gaussians)[b]
        inverse, total = torch.linalg.pinv(covariance), 0.0
        for k in range(gaussians.moments.classes):
            gap = pool.means[number] - gaussians.means[k]
            log_ratio = torch.linalg.slogdet(covariance)[1] - torch.linalg.slogdet(covariances(gaussians)[k])[1]
            total += float(torch.trace(inverse @ covariances(gaussians)[k]) + gap @ inverse @ gap + log_ratio) / 2
        divergence[number] = total
    return sorted(kept, key=lambda number: -divergence[number])[: recipe.way]


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
@pytest.mark.parametrize(
    "options", [{}, {"shrinkage": "ledoit_wolf"}, {"statistics": "normalized"}], ids=["plain", "shrunk", "normalized"]
)
def test_the_right_classes_are_kept(options, similarity):
    gaussians = some_gaussians(**options)
    recipe = PseudoEpisodeRecipe(way=3, candidates=20, survivors=2, novel_similarity=similarity)
    for seed in range(5):
        classes, factors = choose_classes(gaussians, recipe, generator=torch.Generator().manual_seed(seed))
        pool = mix_classes(gaussians, 20, generator=torch.Generator().manual_seed(seed))
        expected = pool[torch.tensor(literal_choice(gaussians, recipe, seed))]
        assert torch.equal(classes.means, expected.means)
        a, b, alpha = expected.first, expected.second, expected.weight[:, None, None]
        mixed = alpha * covariances(gaussians)[a] + (1 - alpha) * covariances(gaussians)[b]
        torch.testing.assert_close(factors @ factors.transpose(1, 2), mixed, rtol=1e-12, atol=1e-12)


def test_samples_have_the_mean_and_covariance_asked_for():
    means = torch.tensor([[1.0, -2.0], [5.0, 0.0]], dtype=torch.float64)
    covariances = torch.tensor([[[2.0, 1.2], [1.2, 1.0]], [[0.5, -0.3], [-0.3, 4.0]]], dtype=torch.float64)
    factors = torch.linalg.cholesky(covariances)
    drawn = sample(means, factors, 40_000, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(drawn.mean(1), means, rtol=0, atol=0.05)
    found = torch.stack([torch.cov(rows.T) for rows in drawn])
    torch.testing.assert_close(found, covariances, rtol=0, atol=0.12)  # a transposed factor is off by 0.6 and more


def test_a_sample_is_mean_plus_factor_times_noise():
    gaussians = some_gaussians()
    factors = torch.linalg.cholesky(covariances(gaussians)[:2])
    drawn = sample(gaussians.means[:2], factors, 3, generator=torch.Generator().manual_seed(5))
    noise = torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    for k in range(2):
        for i in range(3):
            torch.testing.assert_close(drawn[k, i], gaussians.means[k] + factors[k] @ noise[k, i])


few = st.integers(1, 3)
recipes = st.builds(
    PseudoEpisodeRecipe, way=st.integers(1, 4), shot=few, query=few, candidates=st.just(12), survivors=few
)


@given(recipes, st.integers(0, 99))
@settings(deadline=None, max_examples=25)
def test_an_episode_has_the_shape_asked_for(recipe, seed):
    way, shot, query = recipe.way, recipe.shot, recipe.query
    episode = draw_pseudo_episode(some_gaussians(seed), recipe, generator=torch.Generator().manual_seed(seed))
    assert episode.support.shape == (way, shot, 6)
    assert episode.query.shape == (way, query, 6)
    assert episode.support.dtype == episode.query.dtype == torch.float32
    assert len(episode.classes) == way
    everything = torch.cat([episode.support, episode.query], dim=1).reshape(-1, 6)
    assert torch.isfinite(everything).all()
    assert len(everything.unique(dim=0)) == way * (shot + query), "every embedding is drawn afresh"
    assert not everything.requires_grad


def test_one_generator_draws_the_same_episodes_again_and_none_twice():
    gaussians, recipe = some_gaussians(), PseudoEpisodeRecipe(way=2, shot=1, query=2, candidates=10)
    first, again = ([], [])
    for episodes in (first, again):
        generator = torch.Generator().manual_seed(1)
        for _ in range(3):
            episodes.append(draw_pseudo_episode(gaussians, recipe, generator=generator))
    assert all(torch.equal(one.query, two.query) for one, two in zip(first, again, strict=True))
    assert all(not torch.equal(one.query, two.query) for one, two in pairwise(first))


@pytest.mark.parametrize("online", [True, False])
def test_a_stream_resumes_at_any_place(online):
    gaussians, recipe = some_gaussians(), PseudoEpisodeRecipe(way=2, shot=1, query=2, candidates=10)
    whole = PseudoEpisodeStream(gaussians, recipe, seed=3, pool=4, online=online)
    undisturbed = [whole.episode(number) for number in range(11)]
    for place in (10, 7, 3, 0):
        resumed = PseudoEpisodeStream(gaussians, recipe, seed=3, pool=4, online=online).episode(place)
        assert torch.equal(resumed.support, undisturbed[place].support)
        assert torch.equal(resumed.query, undisturbed[place].query)
    other = PseudoEpisodeStream(gaussians, recipe, seed=4, pool=4, online=online).episode(0)
    assert not torch.equal(other.query, undisturbed[0].query)


def test_an_online_stream_never_repeats_and_a_pool_is_reshuffled():
    gaussians, recipe = some_gaussians(), PseudoEpisodeRecipe(way=2, shot=1, query=2, candidates=10)
    online = PseudoEpisodeStream(gaussians, recipe, pool=4, online=True)
    firsts = [float(online.episode(number).query.flatten()[0]) for number in range(12)]
    assert len(set(firsts)) == 12
    pooled = PseudoEpisodeStream(gaussians, recipe, pool=4)
    rounds = [[float(pooled.episode(4 * r + i).query.flatten()[0]) for i in range(4)] for r in range(8)]
    assert rounds[0] == firsts[:4], "the pool holds the first online episodes, in order"
    assert all(sorted(round_) == sorted(rounds[0]) for round_ in rounds), "each round is the whole pool"
    assert len({tuple(round_) for round_ in rounds}) > 3, "in ever new orders"


def test_numbers_and_streams_have_generators_of_their_own():
    words = {
        float(torch.rand(1, generator=numbered_generator(seed, number, stream), dtype=torch.float64))
        for seed in (0, 1)
        for number in range(20)
        for stream in (Stream.SPLITS, Stream.OBJECTIVES)
    }
    assert len(words) == 80


def test_bad_sizes_are_refused():
    gaussians, recipe = some_gaussians(), PseudoEpisodeRecipe(way=2, candidates=10)
    for name in ("way", "shot", "query", "candidates", "survivors"):
        with pytest.raises(InputError, match=f"{name} is 0"):
            PseudoEpisodeRecipe(**{name: 0})
    with pytest.raises(InputError, match="at least 12 candidates"):
        PseudoEpisodeRecipe(way=6, survivors=2, candidates=11)
    with pytest.raises(InputError, match="pool of 0"):
        PseudoEpisodeStream(gaussians, recipe, pool=0)
    with pytest.raises(InputError, match="seed is -1"):
        PseudoEpisodeStream(gaussians, recipe, seed=-1)
    with pytest.raises(InputError, match="pseudo-episode -1"):
        PseudoEpisodeStream(gaussians, recipe).episode(-1)
    noise = torch.randn(72, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    huge = gaussians_of(1e40 * noise, torch.arange(72) % 8)
    with pytest.raises(InputError, match="too large for float32"):
        draw_pseudo_episode(huge, recipe, generator=torch.Generator())
