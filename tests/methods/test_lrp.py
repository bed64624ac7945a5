"""Explanation-guided training: relevance by hand, and a loss that falls."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.method_steps import gradients, striped_episode, train_steps

from cplsr.adapters.attach import adapter_of, attach
from cplsr.backbones.backbone import Backbone
from cplsr.episodes.prototypes import cosine_logits
from cplsr.methods.lrp import (
    METHOD,
    ExplanationGuidance,
    class_relevance,
    relevance,
    relevance_weights,
    weighted_cosines,
)


def vectors(seed: int, count: int, dim: int) -> torch.Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def literal_relevance(query: torch.Tensor, centers: torch.Tensor, temperature: float) -> list[list[float]]:
    """LRP for one query, class by class and channel by channel."""
    cosines = [float(query @ p / (query.norm() * p.norm())) for p in centers]
    powers = [math.exp(temperature * c) for c in cosines]
    result = []
    for c, p in enumerate(centers):
        chance = powers[c] / sum(powers)
        start = math.log((len(centers) - 1) * (chance + 0.01) / (1 + 0.01 - chance))
        stable = cosines[c] + (0.01 if cosines[c] >= 0 else -0.01)
        lengths = float(query.norm() * p.norm())
        result.append([start * float(query[i] * p[i]) / lengths / stable for i in range(len(query))])
    return result


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000), way=st.integers(2, 5), dim=st.integers(2, 6))
def test_relevance_is_lrp_written_out(seed: int, way: int, dim: int):
    queries, centers = vectors(seed, 2, dim), vectors(seed + 1, way, dim)
    given_relevance = relevance(queries, centers, 2.0)
    wanted = torch.tensor([literal_relevance(query, centers, 2.0) for query in queries], dtype=torch.float64)
    torch.testing.assert_close(given_relevance, wanted, rtol=1e-4, atol=1e-6)
    cosines = cosine_logits(queries, centers, 1.0)
    kept = cosines.abs() / (cosines.abs() + 0.01)  # of a score of nothing, nothing is handed down
    torch.testing.assert_close(given_relevance.sum(-1), kept * class_relevance(2 * cosines), rtol=1e-4, atol=1e-6)


def test_class_relevance_is_near_zero_at_chance_and_bounded_when_sure():
    chance = math.log(4 * (0.2 + 0.01) / (0.8 + 0.01))
    torch.testing.assert_close(class_relevance(torch.zeros(1, 5)), torch.full((1, 5), chance))
    assert abs(chance) < 0.04
    sure = class_relevance(torch.tensor([[200.0, -200.0, 0.0, 0.0, 0.0]]))
    torch.testing.assert_close(sure[0, :2], torch.tensor([math.log(4 * 1.01 / 0.01), math.log(4 * 0.01 / 1.01)]))


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000), scale=st.floats(1e-3, 1e6))
def test_weights_are_in_0_to_2_whatever_the_scale(seed: int, scale: float):
    relevances = vectors(seed, 3, 5)
    weights = relevance_weights(scale * relevances)
    assert weights.min() >= 0
    assert weights.max() <= 2
    for row, weight in zip(relevances, weights, strict=True):
        largest = max(abs(value) for value in row.tolist())
        torch.testing.assert_close(weight, torch.tensor([1 + value / largest for value in row.tolist()]).double())


def test_no_relevance_no_change():
    queries, centers = vectors(0, 4, 6), vectors(1, 3, 6)
    weights = relevance_weights(torch.zeros(4, 3, 6, dtype=torch.float64))
    torch.testing.assert_close(weighted_cosines(queries, centers, weights), cosine_logits(queries, centers, 1.0))


def test_a_likely_class_gets_likelier_and_an_unlikely_one_less_likely():
    """Channels in favor of a likely class are strengthened, of an unlikely one weakened: the cosine rises, or falls."""
    query, centers = torch.tensor([[3.0, 1.0, 1.0]]), torch.tensor([[3.0, 2.0, 0.5], [1.0, 0.5, -2.0]])
    before = cosine_logits(query, centers, 1.0)
    after = weighted_cosines(query, centers, relevance_weights(relevance(query, centers, 20.0)))
    assert before[0, 0] > before[0, 1] > 0
    assert after[0, 0] > before[0, 0]
    assert after[0, 1] < before[0, 1]


def test_loss_is_two_cross_entropies(backbone: Backbone):
    attach(backbone, "full")
    episode = striped_episode()
    with torch.no_grad():
        plain, _ = ExplanationGuidance(guidance=0.0).loss(backbone, episode, None)
        half, right = ExplanationGuidance(guidance=0.5).loss(backbone, episode, None)
        whole, _ = ExplanationGuidance(guidance=1.0).loss(backbone, episode, None)
        rows = episode.grouped(backbone(episode.images))
    centers, queries = rows[:, :2].mean(1), rows[:, 2:].flatten(0, 1)
    targets = torch.arange(3).repeat_interleave(3)
    logits = 20 * torch.cosine_similarity(queries[:, None], centers[None], dim=-1)
    torch.testing.assert_close(plain, torch.nn.functional.cross_entropy(logits, targets))
    torch.testing.assert_close(half - plain, 0.5 * (whole - plain), rtol=1e-4, atol=1e-5)
    assert right.item() == (logits.argmax(1) == targets).double().mean().item()
    relevances = torch.tensor([literal_relevance(q, centers, 20.0) for q in queries])
    weights = 1 + relevances / relevances.abs().amax(-1, keepdim=True)
    again = 20 * torch.cosine_similarity(weights * queries[:, None], weights * centers[None], dim=-1)
    torch.testing.assert_close(whole - plain, torch.nn.functional.cross_entropy(again, targets), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("shot", "guidance"), [(1, 0.5), (2, 1.0), (5, 1.0)])
def test_the_second_prediction_counts_half_with_one_shot_and_whole_with_more(backbone, shot, guidance):
    episode = striped_episode(shot=shot, query=1)
    with torch.no_grad():
        found = ExplanationGuidance().loss(backbone, episode, None)[0]
        torch.testing.assert_close(found, ExplanationGuidance(guidance=guidance).loss(backbone, episode, None)[0])


def test_training_lowers_the_loss_and_reaches_every_weight(backbone: Backbone):
    attach(backbone, "full")
    objective = ExplanationGuidance()
    objective.prepare(backbone, 3)
    losses = train_steps(backbone, objective, 8)
    assert losses[-1] < 0.5 * losses[0]
    assert all(
        gradient.abs().max() > 0 for name, gradient in gradients(adapter_of(backbone)).items() if "bias" not in name
    )
    assert METHOD.objective is ExplanationGuidance
