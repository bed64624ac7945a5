"""Feature-wise transformation: the operator, its place, and that it trains."""

import math
from functools import partial

import pytest
import torch
from oracles.tiny_episode import losses_while_training, prepared_objective, tiny_episode

from cplsr.adapters.attach import attach
from cplsr.errors import InputError
from cplsr.methods.fwt import FeatureWiseTransformation, transform

prepared = partial(prepared_objective, FeatureWiseTransformation)


SIZES = torch.tensor([1.0, 0.01, 30.0, 5.0])
"""Of channels: as unequal as those of a transformer."""


def unequal_tokens() -> torch.Tensor:
    return SIZES * torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1)) + 2 * SIZES.flip(0)


def test_every_normalized_channel_gets_one_scale_and_one_shift():
    tokens = unequal_tokens()
    changed = transform(tokens, (0.5, 0.25), torch.Generator().manual_seed(2))
    noise = torch.randn(2, 4, generator=torch.Generator().manual_seed(2))
    for channel in range(4):
        values = [tokens[image, place, channel].item() for image in range(2) for place in range(3)]
        mean = sum(values) / 6
        spread = math.sqrt(sum((value - mean) ** 2 for value in values) / 6 + 1e-5)
        gamma, beta = 1 + 0.5 * noise[0, channel].item(), 0.25 * noise[1, channel].item()
        for value, found in zip(values, changed[..., channel].flatten().tolist(), strict=True):
            wanted = (gamma * (value - mean) / spread + beta) * spread + mean
            assert found == pytest.approx(wanted, rel=1e-5, abs=1e-5)


def test_the_noise_is_as_large_as_the_channel():
    """Seen from the channel, the shift has the same size everywhere: it neither drowns small ones nor spares large."""
    tokens = unequal_tokens()
    moved = [(transform(tokens, (0.0, 0.5), torch.Generator().manual_seed(seed)) - tokens)[0, 0] for seed in range(400)]
    sizes = torch.stack(moved).std(dim=0) / (tokens.flatten(0, 1).var(dim=0, unbiased=False) + 1e-5).sqrt()
    torch.testing.assert_close(sizes, torch.full((4,), 0.5), atol=0.06, rtol=0)


def test_the_deviations_are_those_of_the_papers_sharp_softplus(backbone):
    literal = [math.log(1 + math.exp(100 * theta)) / 100 for theta in (0.3, 0.5)]
    assert prepared(backbone).deviations == pytest.approx(literal)
    assert prepared(backbone).deviations == pytest.approx([0.3, 0.5])
    assert prepared(backbone, strength=0.5).deviations == pytest.approx([0.15, 0.25])


@pytest.mark.parametrize(("network", "places"), [("backbone", (1,)), ("six_blocks", (2, 3, 4, 5))])
def test_the_loss_is_that_of_tokens_transformed_between_the_stages(network, places, request):
    backbone = request.getfixturevalue(network)
    objective = prepared(backbone)
    found, right = objective.loss(backbone, tiny_episode(), None)
    assert objective.layers == places
    episode = tiny_episode()

    def between(layer, tokens):
        return transform(tokens, (0.3, 0.5), draws) if layer in places else tokens

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
