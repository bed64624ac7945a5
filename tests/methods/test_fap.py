"""FAP: copies without detail and mutual attention written out, the terms of the loss, and that it trains."""

import math
from functools import partial

import pytest
import torch
from oracles.tiny_episode import losses_while_training, prepared_objective, tiny_episode
from torch.nn.functional import avg_pool2d, cross_entropy

from cplsr.adapters.attach import adapter_of, attach
from cplsr.data.augment import random_convolution
from cplsr.errors import InputError
from cplsr.methods.ata import ascend
from cplsr.methods.base import prototype_logits
from cplsr.methods.fap import METHOD, FrequencyPrompts, attend_to_first, mutual_attention, without_detail
from cplsr.methods.registry import make_objective
from cplsr.methods.wavelets import haar2d

TRUTH = torch.arange(3).repeat_interleave(3)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


prepared = partial(prepared_objective, FrequencyPrompts)


@pytest.mark.parametrize("size", [6, 7])
def test_the_smooth_copy_is_the_mean_of_every_four_pixels(size):
    images = torch.randn(2, 3, size, size, generator=seeded(1))
    _, smooth = without_detail(images, 1.0, seeded())
    for row in range(size):
        for column in range(size):
            top, left = row - row % 2, column - column % 2
            square = [images[:, :, min(top + i, size - 1), min(left + j, size - 1)] for i in (0, 1) for j in (0, 1)]
            torch.testing.assert_close(smooth[:, :, row, column], sum(square) / 4)


def test_the_noisy_copy_keeps_the_low_band_and_has_the_noise_asked_for():
    images = torch.randn(4, 3, 32, 32, generator=seeded(1))
    noisy, _ = without_detail(images, 0.5, seeded(2))
    low, high = haar2d(noisy)
    torch.testing.assert_close(low, 2 * avg_pool2d(images, 2))
    torch.testing.assert_close(high, 0.5 * torch.randn(high.shape, generator=seeded(2)))
    quiet, smooth = without_detail(images, 0.0, seeded(2))
    assert torch.equal(quiet, smooth)


def test_mutual_attention_adds_both_views_weighted_by_their_agreement():
    original, copy = torch.randn(2, 5, generator=seeded()), torch.randn(2, 5, generator=seeded(1))
    found = mutual_attention(original, copy)
    for place in [(i, j) for i in range(2) for j in range(5)]:
        x, y = original[place].item(), copy[place].item()
        weight = 1 / (1 + math.exp(-x * y))
        assert found[place].item() == pytest.approx(y + x * weight + y * weight, abs=1e-6)
    batch = torch.cat([original, copy, 2 * copy])
    wanted = torch.cat([original, found / 2, mutual_attention(original, 2 * copy) / 2])
    assert torch.equal(attend_to_first(batch), wanted)


def test_small_features_that_are_alike_stay_as_large_as_they_were():
    features = 0.01 * torch.randn(4, 3, 8, generator=seeded())
    torch.testing.assert_close(attend_to_first(features.repeat(3, 1, 1)), features.repeat(3, 1, 1), rtol=1e-3, atol=0)


@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_all_three_ascend_or_all_are_convolved_and_the_original_ascends(backbone, chance):
    found = prepared(backbone, chance=chance, steps=1).harden(backbone, tiny_episode())
    episode, draws = tiny_episode(), seeded()
    images = backbone.normalize(episode.images)
    batch = torch.cat([images, *without_detail(images, 1.0, draws)])
    torch.rand((), generator=draws)
    if chance:
        batch = random_convolution(batch, (1, 3, 5, 7, 11, 15), draws)
    rate = torch.tensor([0.01 / 255 / std for std in backbone.std]).view(3, 1, 1)

    def loss(moved):
        return cross_entropy(prototype_logits(episode, backbone(moved), 20.0), TRUTH)

    parts = list(batch.chunk(3))
    for number in range(1 if chance else 3):
        parts[number] = ascend(parts[number], loss, steps=1, rate=rate)
    torch.testing.assert_close(found, torch.cat(parts))


@pytest.mark.parametrize("attention", ["tokens", "pixels"])
def test_the_loss_is_three_cross_entropies_and_two_divergences(backbone, attention):
    objective = prepared(backbone, attention=attention, steps=0, chance=0.0)
    found, right = objective.loss(backbone, tiny_episode(), None)
    episode = tiny_episode()
    images = backbone.normalize(episode.images)
    copies = without_detail(images, 1.0, seeded())
    entering = {}

    def embed(copy):
        if attention == "pixels":
            return backbone(mutual_attention(images, copy) / 2)

        def led(layer, tokens):
            if layer:
                return tokens
            led_patches = mutual_attention(entering[0][:, 1:], tokens[:, 1:]) / 2
            return torch.cat([tokens[:, :1], led_patches], dim=1)

        return backbone(copy, led)

    clean = prototype_logits(episode, backbone(images, lambda n, t: entering.setdefault(n, t)), 20.0)
    wanted = cross_entropy(clean, TRUTH)
    for copy in copies:
        logits = prototype_logits(episode, embed(copy), 20.0)
        p, q = clean.softmax(-1), logits.softmax(-1)
        wanted = wanted + cross_entropy(logits, TRUTH) + (p * (p / q).log()).sum(-1).mean()
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    assert right.item() == pytest.approx((clean.argmax(1) == TRUTH).double().mean().item())


def test_the_same_draws_give_the_same_loss_and_others_another(backbone):
    objective = prepared(backbone, steps=1)
    one, again, other = (objective.loss(backbone, tiny_episode(draws=draws), None)[0] for draws in (0, 0, 1))
    assert torch.equal(one, again)
    assert one != other


@pytest.mark.parametrize("kind", ["full", "coalescent", "soft_prompts"])
def test_training_lowers_the_loss_and_reaches_every_parameter(backbone, kind):
    attach(backbone, kind)
    losses = losses_while_training(backbone, FrequencyPrompts(chance=0.0, steps=1), steps=6, lr=3e-3)
    assert losses[-1] < losses[0]
    assert all(parameter.grad.abs().max() > 0 for parameter in adapter_of(backbone).parameters())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": "embeddings"}, "attention is 'embeddings': give 'tokens' or 'pixels'"),
        ({"noise": -1.0}, "noise is -1.0"),
        ({"chance": -0.5}, "chance is -0.5"),
    ],
)
def test_what_cannot_be_done_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        make_objective(METHOD, options)
