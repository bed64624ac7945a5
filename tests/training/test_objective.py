"""The loss of a base episode against literal transcriptions."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.reservation.candidates import Candidates
from cplsr.reservation.pseudo_episodes import PseudoEpisode
from cplsr.settings.training import TrainingSettings
from cplsr.training.objective import JointObjective, TrainingEpisode, joint_loss

SETTINGS = TrainingSettings(temperature=4.0)
RIDGE = TrainingSettings(temperature=4.0, head="ridge")


def pseudo_episode(way: int, shot: int, query: int, dim: int) -> PseudoEpisode:
    nothing = Candidates(
        *(torch.zeros(way, dtype=torch.int64),) * 2,
        *(torch.zeros(way, dtype=torch.float64),),
        torch.zeros(way, dim, dtype=torch.float64),
    )
    return PseudoEpisode(torch.randn(way, shot, dim), torch.randn(way, query, dim), nothing)


def classes_of(embeddings, shot, pseudo):
    """Support and queries, class by class, real ones first."""
    classes = [(e[:shot], e[shot:]) for e in embeddings]
    return classes if pseudo is None else classes + list(zip(pseudo.support, pseudo.query, strict=True))


def literal_cross_entropy(classes, real, scores_of):
    """Every query by itself: its loss, and of the queries of the first `real` classes the accuracy."""
    losses, right = [], []
    for label, (_, queries) in enumerate(classes):
        for query in queries:
            scores = scores_of(query)
            losses.append(-math.log(math.exp(scores[label]) / sum(map(math.exp, scores))))
            if label < real:
                right.append(max(range(len(scores)), key=scores.__getitem__) == label)
    return sum(losses) / len(losses), sum(right) / len(right)


def literal_loss(embeddings, shot, pseudo, temperature):
    """Every query's cross-entropy over all prototypes, one at a time: −log exp(τ cos)/Σ exp(τ cos)."""
    classes = classes_of(embeddings, shot, pseudo)
    centers = [sum(support) / len(support) for support, _ in classes]

    def scores_of(query):
        return [temperature * (query @ c / (query.norm() * c.norm())).item() for c in centers]

    return literal_cross_entropy(classes, len(embeddings), scores_of)


def literal_ridge_loss(embeddings, shot, pseudo, temperature, penalty=0.1):
    """One weight vector per class by the normal equations among the dimensions, then every query by itself."""
    classes = classes_of(embeddings, shot, pseudo)
    rows = torch.stack([image / image.norm() for support, _ in classes for image in support]).double()
    truth = torch.zeros(len(rows), len(classes), dtype=torch.float64)
    for number in range(len(rows)):
        truth[number, number // shot] = 1
    # (XᵀX + λI)⁻¹ Xᵀ Y, which equals Xᵀ (X Xᵀ + λI)⁻¹ Y
    weights = torch.linalg.inv(rows.T @ rows + penalty * torch.eye(rows.shape[1])) @ rows.T @ truth
    return literal_cross_entropy(
        classes, len(embeddings), lambda query: (temperature * (query.double() / query.norm()) @ weights).tolist()
    )


@pytest.mark.parametrize(("chosen", "literal"), [(SETTINGS, literal_loss), (RIDGE, literal_ridge_loss)])
@given(st.integers(2, 4), st.integers(1, 3), st.integers(1, 3), st.booleans(), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_the_loss_is_the_literal_one(chosen, literal, way, shot, query, with_pseudo, seed):
    torch.manual_seed(seed)
    embeddings = torch.randn(way, shot + query, 5)
    pseudo = pseudo_episode(way, shot, query, 5) if with_pseudo else None
    loss, right = joint_loss(embeddings, shot, pseudo, chosen)
    expected_loss, expected_right = literal(embeddings, shot, pseudo, 4.0)
    assert loss.item() == pytest.approx(expected_loss, rel=1e-4)
    assert right.item() == pytest.approx(expected_right)


def test_pseudo_embeddings_push_but_have_no_gradient_of_their_own():
    embeddings = torch.randn(3, 4, 5, requires_grad=True)
    pseudo = pseudo_episode(3, 2, 2, 5)
    joint_loss(embeddings, 2, None, SETTINGS)[0].backward()
    alone = embeddings.grad.clone()
    embeddings.grad = None
    joint_loss(embeddings, 2, pseudo, SETTINGS)[0].backward()
    assert (embeddings.grad - alone).abs().max() > 1e-4
    assert pseudo.support.grad is None


def test_the_ridge_loss_is_differentiated_through_its_solution():
    torch.manual_seed(1)
    embeddings = torch.randn(2, 4, 5, dtype=torch.float64, requires_grad=True)
    pseudo = pseudo_episode(2, 2, 2, 5)
    assert torch.autograd.gradcheck(lambda x: joint_loss(x, 2, pseudo, RIDGE)[0], (embeddings,))


@pytest.mark.parametrize("chosen", [SETTINGS, RIDGE])
def test_in_depth_the_loss_is_that_of_the_episode_and_that_of_the_last_class_tokens(chosen, checkpoint_file):
    from cplsr import load_backbone

    torch.manual_seed(2)
    backbone = load_backbone(checkpoint_file, heads=2, pooling="depth")
    pixels = torch.randint(256, (2, 4, 3, 32, 32), dtype=torch.uint8)
    pseudo = pseudo_episode(2, 2, 2, backbone.dim)
    episode = TrainingEpisode(pixels, 2, torch.arange(2), torch.Generator(), pseudo)
    objective = JointObjective(chosen)
    objective.prepare(backbone, 2)
    loss, right = objective.loss(backbone, episode, None)
    deep = backbone(episode.images).unflatten(0, (2, 4))
    with backbone.pooled("cls"):
        tokens = backbone(episode.images).unflatten(0, (2, 4))
    assert (backbone.pooling, backbone.pooled_layers) == ("depth", (0, 1))
    literal = literal_loss if chosen.head == "prototypes" else literal_ridge_loss
    alone, share = literal(deep, 2, None, 4.0)
    joint, _ = literal(tokens / tokens.norm(dim=-1, keepdim=True), 2, pseudo, 4.0)
    assert loss.item() == pytest.approx(alone + joint, rel=1e-4)
    assert right.item() == pytest.approx(share)


@pytest.mark.parametrize("kind", ["coalescent", "lora"])
def test_the_anchor_holds_no_second_copy_of_weights_that_do_not_learn(kind, checkpoint_file):
    from cplsr import attach, load_backbone

    plain = load_backbone(checkpoint_file, heads=2)
    weights = {id(weight) for weight in plain.parameters()}
    objective = JointObjective(TrainingSettings(anchor=1.0))
    objective.prepare(attach(plain, kind), 2)
    frozen = objective.frozen.__self__
    assert frozen is not plain
    assert frozen.adapter is None
    assert {id(weight) for weight in frozen.parameters()} == weights
    assert any(weight.requires_grad for weight in plain.parameters())


@pytest.mark.parametrize("pooling", ["cls", "depth"])
@pytest.mark.parametrize("kind", ["coalescent", "lora", "full"])
def test_the_anchor_is_the_literal_mean_distance_from_the_frozen_backbone(kind, pooling, checkpoint_file):
    from cplsr import attach, load_backbone

    torch.manual_seed(3)
    backbone = attach(load_backbone(checkpoint_file, heads=2, pooling=pooling), kind)
    frozen = load_backbone(checkpoint_file, heads=2, pooling=pooling)
    losses = {}
    pixels = torch.randint(256, (2, 3, 3, 32, 32), dtype=torch.uint8)
    episode = TrainingEpisode(pixels, 1, torch.arange(2), torch.Generator())
    for anchor in (0.0, 3.0):
        objective = JointObjective(TrainingSettings(temperature=4.0, anchor=anchor))
        objective.prepare(backbone, 2)
        assert not list(objective.parameters())
        if not losses:
            with torch.no_grad():
                for parameter in backbone.adapter.parameters():
                    parameter.add_(0.1 * torch.randn_like(parameter))
        losses[anchor] = objective.loss(backbone, episode, None)[0].item()
    distances = []
    for image in episode.images:
        a, b = backbone(image[None])[0], frozen(image[None])[0]
        distances.append(1 - (a @ b / (a.norm() * b.norm())).item())
    assert sum(distances) > 1e-3
    assert losses[3.0] - losses[0.0] == pytest.approx(3 * sum(distances) / len(distances), rel=1e-3, abs=1e-5)
