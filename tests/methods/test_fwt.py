"""Feature-wise transformation: the operator, its place, and that it trains."""

import math

import pytest
import torch
from oracles.tiny_episode import losses_while_training, tiny_episode

from cplsr.adapters.attach import attach
from cplsr.errors import InputError
from cplsr.methods.fwt import FeatureWiseTransformation, transform


def prepared(backbone, **options):
    objective = FeatureWiseTransformation(**options)
    objective.prepare(backbone, 5)
    return objective


def test_every_channel_gets_one_scale_and_one_shift():
    tokens = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1))
    changed = transform(tokens, 0.5, 0.25, torch.Generator().manual_seed(2))
    noise = torch.randn(2, 4, generator=torch.Generator().manual_seed(2))
    for image in range(2):
        for place in range(3):
            for channel in range(4):
                gamma, beta = 1 + 0.5 * noise[0, channel].item(), 0.25 * noise[1, channel].item()
                wanted = gamma * tokens[image, place, channel].item() + beta
                assert changed[image, place, channel].item() == pytest.approx(wanted, abs=1e-6)


def test_the_deviations_are_the_softplus_of_the_papers_numbers(backbone):
    objective = prepared(backbone)
    assert objective.scale_deviation == pytest.approx(math.log(1 + math.exp(0.3)))
    assert objective.shift_deviation == pytest.approx(math.log(1 + math.exp(0.5)))
    assert prepared(backbone, strength=0.5).scale_deviation == pytest.approx(objective.scale_deviation / 2)


def test_the_loss_is_that_of_tokens_transformed_between_the_stages(backbone):
    objective = prepared(backbone)
    found, right = objective.loss(backbone, tiny_episode(), None)
    assert objective.layers == (1,)
    episode = tiny_episode()

    def between(layer, tokens):
        return tokens if layer == 0 else transform(tokens, objective.scale_deviation, objective.shift_deviation, draws)

    draws = torch.Generator().manual_seed(0)
    rows = backbone(episode.images, between).unflatten(0, (3, 5))
    centers = rows[:, :2].mean(dim=1)
    cosines = torch.nn.functional.cosine_similarity(rows[:, 2:].flatten(0, 1)[:, None], centers[None], dim=-1)
    truth = torch.arange(3).repeat_interleave(3)
    torch.testing.assert_close(found, torch.nn.functional.cross_entropy(20 * cosines, truth))
    assert right.item() == pytest.approx((cosines.argmax(1) == truth).double().mean().item())


def test_without_strength_it_is_the_plain_prototype_loss_and_with_it_is_random(backbone):
    plain = prepared(backbone, strength=0.0).loss(backbone, tiny_episode(), None)[0]
    torch.testing.assert_close(plain, prepared(backbone, strength=0.0).loss(backbone, tiny_episode(draws=1), None)[0])
    one, again, other = (prepared(backbone).loss(backbone, tiny_episode(draws=d), None)[0] for d in (0, 0, 1))
    assert one == again
    assert one != other
    assert one != plain


@pytest.mark.parametrize("kind", ["full", "coalescent"])
def test_training_lowers_the_loss(backbone, kind):
    attach(backbone, kind)
    losses = losses_while_training(backbone, FeatureWiseTransformation(strength=0.3), steps=6, lr=3e-3)
    assert losses[-1] < losses[0]


def test_a_negative_strength_is_refused():
    with pytest.raises(InputError, match="strength is -1"):
        FeatureWiseTransformation(strength=-1.0)
