"""One base episode and its loss against literal transcriptions."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.data.decoded_images import DecodedImages
from cplsr.episodes.sampling import EpisodeSampler
from cplsr.reservation.candidates import Candidates
from cplsr.reservation.pseudo_episodes import PseudoEpisode
from cplsr.training.episode_plan import plan_base_episode
from cplsr.training.objective import joint_loss

LABELS = np.repeat(np.arange(7), 6)


def sampler(way=3, shot=2, query=2, seed=0) -> EpisodeSampler:
    return EpisodeSampler(LABELS, way=way, shot=shot, query=query, seed=seed)


def pseudo_episode(way: int, shot: int, query: int, dim: int) -> PseudoEpisode:
    nothing = Candidates(
        *(torch.zeros(way, dtype=torch.int64),) * 2,
        *(torch.zeros(way, dtype=torch.float64),),
        torch.zeros(way, dim, dtype=torch.float64),
    )
    return PseudoEpisode(torch.randn(way, shot, dim), torch.randn(way, query, dim), nothing)


def literal_loss(embeddings, shot, pseudo, temperature):
    """Every query's cross-entropy over all prototypes, one at a time: −log exp(τ cos)/Σ exp(τ cos)."""
    classes = [(e[:shot], e[shot:]) for e in embeddings]
    if pseudo is not None:
        classes += list(zip(pseudo.support, pseudo.query, strict=True))
    centers = [sum(support) / len(support) for support, _ in classes]
    losses, right = [], []
    for label, (_, queries) in enumerate(classes):
        for query in queries:
            scores = [temperature * (query @ c / (query.norm() * c.norm())).item() for c in centers]
            losses.append(-math.log(math.exp(scores[label]) / sum(map(math.exp, scores))))
            if label < len(embeddings):
                right.append(max(range(len(scores)), key=scores.__getitem__) == label)
    return sum(losses) / len(losses), sum(right) / len(right)


@given(st.integers(2, 4), st.integers(1, 3), st.integers(1, 3), st.booleans(), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_the_loss_is_the_literal_one(way, shot, query, with_pseudo, seed):
    torch.manual_seed(seed)
    embeddings = torch.randn(way, shot + query, 5)
    pseudo = pseudo_episode(way, shot, query, 5) if with_pseudo else None
    loss, right = joint_loss(embeddings, shot, pseudo, temperature=4.0)
    expected_loss, expected_right = literal_loss(embeddings, shot, pseudo, 4.0)
    assert loss.item() == pytest.approx(expected_loss, rel=1e-4)
    assert right.item() == pytest.approx(expected_right)


def test_pseudo_embeddings_push_but_have_no_gradient_of_their_own():
    embeddings = torch.randn(3, 4, 5, requires_grad=True)
    pseudo = pseudo_episode(3, 2, 2, 5)
    joint_loss(embeddings, 2, None, temperature=4.0)[0].backward()
    alone = embeddings.grad.clone()
    embeddings.grad = None
    joint_loss(embeddings, 2, pseudo, temperature=4.0)[0].backward()
    assert (embeddings.grad - alone).abs().max() > 1e-4
    assert pseudo.support.grad is None


@given(st.integers(0, 1000), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_four_disjoint_episodes_hold_every_turn_of_every_class_once(number, seed):
    plans = plan_base_episode(sampler(seed=seed), number, sst=True, seed=seed)
    assert len(plans) == 4
    seen = [(tuple(images), turn) for plan in plans for images, turn in zip(plan.images, plan.turns, strict=True)]
    assert len(seen) == len(set(seen)) == 12
    by_class = {}
    for images, turn in seen:
        by_class.setdefault(images, set()).add(turn)
    assert len(by_class) == 3
    assert all(turns == {0, 1, 2, 3} for turns in by_class.values())


def test_without_sst_there_is_one_episode_and_nothing_is_turned():
    (plan,) = plan_base_episode(sampler(), 4, sst=False, seed=0)
    drawn = sampler().draw(1, first=4)
    assert np.array_equal(plan.images, np.concatenate([drawn.support[0], drawn.query[0]], axis=1))
    assert plan.turns == (0, 0, 0)


def test_pixels_are_turned_counter_clockwise_class_by_class():
    pixels = np.arange(len(LABELS) * 3 * 4 * 4, dtype=np.int64).reshape(len(LABELS), 3, 4, 4).astype(np.uint8)
    images = DecodedImages(pixels, LABELS, tuple("abcdefg"), "x", ())
    plan = plan_base_episode(sampler(), 0, sst=True, seed=0)[1]
    result = plan.pixels(images)
    row = 0
    for members, turn in zip(plan.images, plan.turns, strict=True):
        for image in members:
            assert np.array_equal(result[row].numpy(), np.rot90(pixels[image], turn, axes=(-2, -1)))
            row += 1
    assert row == len(result)
