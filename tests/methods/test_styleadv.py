"""StyleAdv: the attack against a literal one, the terms of the loss, and that it trains."""

from dataclasses import replace

import pytest
import torch
from oracles.tiny_episode import losses_while_training, tiny_episode
from torch.nn.functional import cross_entropy

from cplsr.adapters.attach import attach
from cplsr.errors import InputError
from cplsr.methods.base import agreement, prototype_logits
from cplsr.methods.style import style_of, with_style
from cplsr.methods.styleadv import SPREAD, StyleAdversary


def prepared(backbone, **options):
    objective = StyleAdversary(**{"skip": 0.0, "strengths": (0.08,), **options})
    objective.prepare(backbone, 5)
    return objective


def labels_of(episode):
    return episode.classes.repeat_interleave(episode.pixels.shape[1])


def test_the_attack_is_a_random_step_and_then_a_signed_gradient_step(backbone):
    objective, episode = prepared(backbone), tiny_episode()
    found = objective.attack(backbone, episode, labels_of(episode))
    assert list(found) == [1]

    draws = torch.Generator().manual_seed(0)
    torch.rand(2, generator=draws)
    entering = {}
    backbone(episode.images, lambda layer, tokens: entering.setdefault(layer, tokens))
    mean, deviation = style_of(entering[1], 1)
    mean = (mean + SPREAD * torch.randn(mean.shape, generator=draws)).requires_grad_()
    deviation = (deviation + SPREAD * torch.randn(mean.shape, generator=draws)).requires_grad_()

    def restyled(layer, tokens):
        return with_style(tokens, 1, (mean, deviation)) if layer == 1 else tokens

    scores = objective.classifier(backbone(episode.images, restyled))
    cross_entropy(scores, labels_of(episode)).backward()
    for part, start in zip(found[1], (mean, deviation), strict=True):
        torch.testing.assert_close(part, start.detach() + 0.08 * start.grad.sign())
        assert not part.requires_grad


def test_the_attack_makes_the_episode_harder_for_the_global_classifier(backbone):
    objective, episode = prepared(backbone), tiny_episode()
    with torch.no_grad():
        objective.classifier.weight.mul_(30)
    labels = labels_of(episode)

    def loss(between=None):
        return cross_entropy(objective.classifier(backbone(episode.images, between)), labels).item()

    styles = objective.attack(backbone, episode, labels)
    assert loss(objective._styled(styles)) > loss()


def test_the_loss_is_the_sum_of_its_four_terms(backbone):
    objective, episode = prepared(backbone), tiny_episode()
    found, right = objective.loss(backbone, tiny_episode(), None)
    styles = objective.attack(backbone, episode, labels_of(episode))
    clean = backbone(episode.images)
    changed = backbone(episode.images, lambda layer, tokens: with_style(tokens, 1, styles[1]) if layer == 1 else tokens)
    truth = torch.arange(3).repeat_interleave(3)
    one, other = (prototype_logits(episode, rows, 20.0) for rows in (clean, changed))
    p, q = one.softmax(-1), other.softmax(-1)
    divergence = sum((p[n, c] * (p[n, c] / q[n, c]).log()).item() for n in range(9) for c in range(3)) / 9
    assert agreement(one, other).item() == pytest.approx(divergence, abs=1e-5)
    wanted = cross_entropy(one, truth) + cross_entropy(other, truth) + divergence
    wanted = wanted + cross_entropy(objective.classifier(clean), labels_of(episode))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    assert right.item() == pytest.approx((one.argmax(1) == truth).double().mean().item())


def test_stages_are_attacked_in_turn_with_the_earlier_styles_in_place(backbone, monkeypatch):
    monkeypatch.setattr("cplsr.methods.styleadv.SPREAD", 0.0)
    objective, episode = prepared(backbone), tiny_episode()
    objective.layers = (0, 1)
    styles = objective.attack(backbone, episode, labels_of(episode))
    assert list(styles) == [0, 1]
    entering = {}

    def first_stage_only(layer, tokens):
        entering[layer] = with_style(tokens, 1, styles[0]) if layer == 0 else tokens
        return entering[layer]

    backbone(episode.images, first_stage_only)
    for part, start in zip(styles[1], style_of(entering[1], 1), strict=True):
        torch.testing.assert_close((part - start).abs(), torch.full_like(part, 0.08), atol=1e-4, rtol=0)


def test_a_stage_is_skipped_with_the_given_chance_and_the_strength_is_drawn(backbone):
    objective, episode = prepared(backbone, skip=1.0), tiny_episode()
    assert objective.attack(backbone, episode, labels_of(episode)) == {}
    plain = cross_entropy(
        prototype_logits(episode, backbone(episode.images), 20.0), torch.arange(3).repeat_interleave(3)
    ) + cross_entropy(objective.classifier(backbone(episode.images)), labels_of(episode))
    torch.testing.assert_close(objective.loss(backbone, episode, None)[0], plain)

    counts = {0.5: 0, 5.0: 0, None: 0}
    objective = StyleAdversary(strengths=(0.5, 5.0), skip=0.4)
    objective.layers = (1,)
    start, one, zero = torch.zeros(1, 1, 1), torch.ones(1, 1, 1), torch.zeros(1, 1, 1)
    objective._gradients = lambda *_: ([start, start], (one, zero))
    for draws in range(300):
        stream = replace(episode, generator=torch.Generator().manual_seed(draws))
        found = objective.attack(backbone, stream, labels_of(episode))
        counts[found[1][0].item() if found else None] += 1
    assert 90 < counts[None] < 150
    assert min(counts[0.5], counts[5.0]) > 60


def test_it_is_a_function_of_the_generator(backbone):
    one, again, other = (prepared(backbone).loss(backbone, tiny_episode(draws=d), None)[0] for d in (0, 0, 1))
    assert one == again
    assert one != other


@pytest.mark.parametrize("kind", ["full", "coalescent", "soft_prompts"])
def test_training_lowers_the_loss_and_reaches_everything(backbone, kind):
    attach(backbone, kind)
    objective = StyleAdversary()
    losses = losses_while_training(backbone, objective, steps=6, lr=3e-3)
    assert losses[-1] < losses[0]
    assert all(parameter.grad.abs().max() > 0 for parameter in objective.parameters())
    missed = [name for name, parameter in backbone.adapter.named_parameters() if parameter.grad is None]
    assert missed == []


@pytest.mark.parametrize("options", [{"skip": 1.5}, {"strengths": ()}, {"strengths": (0.8, -1.0)}])
def test_wrong_options_are_refused(options):
    with pytest.raises(InputError, match=rf"^{next(iter(options))} is .*: give"):
        StyleAdversary(**options)
