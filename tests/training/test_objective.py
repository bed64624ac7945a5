"""The loss of a base episode against literal transcriptions."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.reservation.candidates import Candidates
from cplsr.reservation.pseudo_episodes import PseudoEpisode
from cplsr.training.objective import joint_loss


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
