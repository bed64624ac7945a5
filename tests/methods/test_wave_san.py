"""Wave-SAN: the swap of low bands against a literal one, the terms of the loss, and that it trains."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.color_folders import noise_folders
from oracles.tiny_episode import losses_while_training, tiny_episode
from torch.nn.functional import cross_entropy

from cplsr import TrainingSettings, load_backbone, train
from cplsr.adapters.attach import adapter_of, attach
from cplsr.errors import InputError
from cplsr.methods.base import prototype_logits
from cplsr.methods.style import EPSILON
from cplsr.methods.wave_san import WaveletStyles, swap_styles
from cplsr.training.monitor import Monitor

TRUTH = torch.arange(3).repeat_interleave(3)


def tokens_of(batch: int, side: int, *, prefix: int = 2, dim: int = 3, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 1 + 2 * torch.randn(batch, prefix + side**2, dim, generator=generator, dtype=torch.float64)


def literal_swap(tokens, side):
    """Square by square: the half sum of four patches changes style, and each patch moves by half of the change."""
    batch, count, dim = tokens.shape
    start, even = count - side**2, side + side % 2

    def patch(image, row, column, channel):
        return tokens[image, start + min(row, side - 1) * side + min(column, side - 1), channel].item()

    def low(image, channel):
        return {
            (row, column): sum(patch(image, row + i, column + j, channel) for i in (0, 1) for j in (0, 1)) / 2
            for row in range(0, even, 2)
            for column in range(0, even, 2)
        }

    def style(values):
        mean = sum(values) / len(values)
        return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / len(values) + EPSILON)

    changed = tokens.clone()
    for image in range(batch):
        for channel in range(dim):
            mine, other = low(image, channel), low((image + batch // 2) % batch, channel)
            (mean, deviation), (new_mean, new_deviation) = style(mine.values()), style(other.values())
            for row in range(side):
                for column in range(side):
                    old = mine[row - row % 2, column - column % 2]
                    new = (old - mean) / deviation * new_deviation + new_mean
                    changed[image, start + row * side + column, channel] += (new - old) / 2
    return changed


@pytest.mark.parametrize("side", [2, 3, 4, 5])
def test_low_bands_swap_their_styles_and_nothing_else_changes(side):
    tokens = tokens_of(4, side)
    found = swap_styles(tokens, side**2)
    torch.testing.assert_close(found, literal_swap(tokens, side))
    assert torch.equal(found[:, :2], tokens[:, :2])


def test_a_style_is_given_away_as_a_constant():
    tokens = tokens_of(2, 4).requires_grad_()
    swap_styles(tokens, 16)[0].square().sum().backward()
    assert tokens.grad[0].abs().max() > 0
    assert tokens.grad[1].abs().max() == 0


@settings(deadline=None, max_examples=20)
@given(st.integers(2, 6), st.integers(0, 1000))
def test_swapping_with_itself_changes_nothing_and_swapping_twice_undoes(side, seed):
    same = tokens_of(2, side, seed=seed).repeat(2, 1, 1)
    torch.testing.assert_close(swap_styles(same, side**2), same)
    if side % 2 == 0 and side > 2:  # a padded edge is cut off again, and one cell has no deviation to give back
        pair = tokens_of(4, side, seed=seed)
        twice = swap_styles(swap_styles(pair, side**2), side**2)
        torch.testing.assert_close(twice, pair, rtol=1e-3, atol=1e-3)  # ε enters twice


def test_the_loss_is_its_three_terms_averaged_over_both_episodes(backbone):
    objective = WaveletStyles(share=0.7)
    objective.prepare(backbone, 5)
    assert (objective.layers, objective.patches) == ((1,), 16)
    pair = (tiny_episode(), tiny_episode(seed=1))
    found, right = objective.loss(backbone, *pair)

    images = torch.cat([episode.images for episode in pair])
    swapped = backbone(images, lambda layer, tokens: literal_swap(tokens, 4) if layer == 1 else tokens).chunk(2)
    wanted, accuracies = 0.0, []
    for episode, rows in zip(pair, swapped, strict=True):
        clean, changed = (prototype_logits(episode, part, 20.0) for part in (backbone(episode.images), rows))
        middle, apart = ((clean + changed) / 2).softmax(-1), 0.0
        for p in (clean.softmax(-1), changed.softmax(-1)):
            apart += sum((p[n, c] * (p[n, c] / middle[n, c]).log()).item() for n in range(9) for c in range(3)) / 9 / 2
        wanted += (0.3 * cross_entropy(clean, TRUTH) + 0.7 * cross_entropy(changed, TRUTH) + apart) / 2
        accuracies.append((clean.argmax(1) == TRUTH).double().mean())
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    assert right.item() == pytest.approx(sum(accuracies).item() / 2)


def test_a_partner_of_the_same_images_changes_nothing_and_another_does(backbone):
    objective = WaveletStyles()
    objective.prepare(backbone, 5)
    plain = cross_entropy(prototype_logits(tiny_episode(), backbone(tiny_episode().images), 20.0), TRUTH)
    torch.testing.assert_close(objective.loss(backbone, tiny_episode(), tiny_episode())[0], plain)
    one, again, other = (objective.loss(backbone, tiny_episode(), tiny_episode(seed=seed))[0] for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert one != other


@pytest.mark.parametrize("kind", ["full", "coalescent", "soft_prompts"])
def test_training_lowers_the_loss_and_reaches_every_parameter(backbone, kind):
    attach(backbone, kind)
    losses = losses_while_training(backbone, WaveletStyles(), steps=6, lr=3e-3)
    assert losses[-1] < losses[0]
    assert all(parameter.grad.abs().max() > 0 for parameter in adapter_of(backbone).parameters())


def test_it_asks_for_a_partner_and_says_so():
    assert WaveletStyles.partner
    with pytest.raises(InputError, match="only one was given"):
        WaveletStyles().loss(lambda images: images, tiny_episode(), None)
    with pytest.raises(InputError, match=r"share is 1\.2"):
        WaveletStyles(share=1.2)


def test_images_per_second_are_of_both_episodes(checkpoint_file, tmp_path, monkeypatch):
    counted, tell = [], Monitor.episode
    monkeypatch.setattr(Monitor, "episode", lambda self, *figures: (counted.append(figures[4]), tell(self, *figures)))
    base = noise_folders(tmp_path / "base", classes=4, images=4, step=20)
    chosen = TrainingSettings(way=2, shot=1, query=2, episodes=2, sst=False, pe=False, validation_episodes=4)
    backbone = load_backbone(checkpoint_file, heads=2)
    train(backbone, base, base, out=tmp_path / "run", settings=chosen, objective=WaveletStyles(), workers=0)
    assert counted == [2 * 2 * 3] * 2
