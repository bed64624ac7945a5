"""CD-CLS: the fixed class token, the domain tokens and their penalty."""

import math
from functools import partial

import pytest
import torch
from oracles.functional_vit import literal_network
from oracles.tiny_episode import losses_while_training, prepared_objective, tiny_episode
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

from cplsr import attach, detach, load_backbone
from cplsr.adapters.attach import adapter_of
from cplsr.errors import InputError
from cplsr.methods.cd_cls import PACE, DomainTokens

LABELS = torch.tensor([1, 2, 3]).repeat_interleave(5)

prepared = partial(prepared_objective, DomainTokens)


def class_token(backbone):
    return backbone.model.get_parameter("embeddings.cls_token")


def test_the_loss_is_that_of_domain_tokens_added_to_the_class_token_and_a_penalty(checkpoint_file):
    backbone = load_backbone(checkpoint_file, heads=2, mean=(0.5,) * 3, std=(0.5,) * 3)
    objective, tensors = prepared(backbone, penalty=3.0), load_file(checkpoint_file)
    with torch.no_grad():
        objective.changes.normal_(generator=torch.Generator().manual_seed(5)).mul_(50)
    tokens = objective.domain_tokens.detach()

    def enter(layer, x):
        if layer > 0:
            return x
        x = x.clone()
        for image, label in enumerate(LABELS.tolist()):
            x[image, 0] += tokens[label]
        return x

    rows = literal_network(tensors, tiny_episode().images / 255 * 2 - 1, enter=enter)[:, 0]
    fixed, total = tensors["cls_token"][0, 0], 0.0
    for token in tokens:
        total += abs(float(fixed @ token)) / (float(fixed.norm()) * float(token.norm()))
    wanted = cross_entropy(rows @ objective.classifier.weight.T, LABELS) + 3 * total / 5
    torch.testing.assert_close(objective.loss(backbone, tiny_episode(), None)[0], wanted)


@pytest.mark.parametrize("random_token", [True, False])
def test_the_whole_backbone_gets_a_random_class_token_that_never_learns(backbone, random_token):
    before = class_token(backbone).detach().clone()
    attach(backbone, "full")
    objective = DomainTokens(random_token=random_token)
    losses = losses_while_training(backbone, objective, steps=3, lr=1e-2)
    assert losses[-1] < losses[0]
    fixed = class_token(backbone).detach().clone()
    assert torch.equal(fixed, before) != random_token
    if random_token:
        assert fixed.abs().max() < 0.08
        assert fixed.std().item() == pytest.approx(0.02, rel=0.3)
    assert torch.equal(objective.class_token, fixed.flatten())
    missed = [name for name, parameter in adapter_of(backbone).named_parameters() if parameter.grad is None]
    assert missed == ["weights.embeddings/cls_token"]
    assert torch.equal(class_token(detach(backbone)), before)


def test_an_adapter_keeps_the_backbones_own_class_token(backbone):
    before = class_token(backbone).detach().clone()
    attach(backbone, "coalescent")
    losses = losses_while_training(backbone, DomainTokens(), steps=3, lr=1e-3)
    assert losses[-1] < losses[0]
    assert torch.equal(class_token(backbone), before)


def test_domain_tokens_start_small_and_learn_at_a_hundredth_of_the_classifiers_rate(backbone):
    objective = DomainTokens()
    objective.prepare(backbone, 200)
    start = objective.domain_tokens.detach().clone()
    assert start.shape == (200, 64)
    assert start.std().item() == pytest.approx(math.sqrt(2 / (200 * 64)), rel=0.05)
    objective.loss(backbone, tiny_episode(), None)[0].backward()
    torch.optim.AdamW(objective.parameters(), lr=1e-3, weight_decay=0).step()
    moved = (objective.domain_tokens - start).abs().mean(1)[1:4]  # those of the episode
    torch.testing.assert_close(moved, torch.full((3,), PACE * 1e-3), rtol=0.05, atol=0)


def test_a_negative_penalty_is_refused():
    with pytest.raises(InputError, match="penalty is -1"):
        DomainTokens(penalty=-1.0)
