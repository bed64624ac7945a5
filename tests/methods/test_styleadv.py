"""StyleAdv: the attack against a literal one, the terms of the loss, and that it trains."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from oracles.tiny_episode import losses_while_training, prepared_objective, tiny_episode
from torch.nn.functional import cross_entropy

from cplsr.adapters.attach import attach
from cplsr.errors import InputError
from cplsr.methods.base import agreement, prototype_logits
from cplsr.methods.style import style_of, with_style
from cplsr.methods.styleadv import METHOD, SPREAD, StyleAdversary
from cplsr.settings.training import TrainingSettings

prepared = partial(prepared_objective, StyleAdversary, skip=0.0, strengths=(0.08,))


def labels_of(episode):
    return episode.classes.repeat_interleave(episode.pixels.shape[1])


def test_the_attack_is_a_random_step_and_a_signed_gradient_step(backbone):
    objective, episode = prepared(backbone), tiny_episode()
    found = objective.attack(backbone, episode, labels_of(episode))
    assert list(found) == [1]

    draws = torch.Generator().manual_seed(0)
    torch.randint(1, (1,), generator=draws)
    entering = {}
    backbone(episode.images, lambda layer, tokens: entering.setdefault(layer, tokens))
    style = [part.detach().requires_grad_() for part in style_of(entering[1], 1)]
    scores = objective.classifier(
        backbone(episode.images, lambda layer, tokens: with_style(tokens, 1, tuple(style)) if layer == 1 else tokens)
    )
    cross_entropy(scores, labels_of(episode)).backward()  # the gradient is that at the style as it was
    for part, start in zip(found[1], style, strict=True):
        noise = SPREAD * torch.randn(start.shape, generator=draws)
        torch.testing.assert_close(part, start.detach() + noise + 0.08 * start.grad.sign())
        assert not part.requires_grad


def test_a_classifier_that_learned_at_its_own_rate_makes_episodes_harder(backbone):
    """At the backbone's rate, 5e-5, it is at chance after as many steps, and its attacks make them easier."""
    own_rate = TrainingSettings(**METHOD.settings).objective_lr
    objective, episode = prepared(backbone), tiny_episode()
    labels, rows = labels_of(episode), backbone(episode.images).detach()
    optimizer = torch.optim.SGD(objective.parameters(), lr=own_rate, momentum=0.9)
    for _ in range(200):
        optimizer.zero_grad()
        cross_entropy(objective.classifier(rows), labels).backward()
        optimizer.step()
    assert torch.equal(objective.classifier(rows).argmax(1), labels)
    styles = objective.attack(backbone, episode, labels)
    changed, truth = backbone(episode.images, objective._styled(styles)), torch.arange(3).repeat_interleave(3)
    for losses in (
        [cross_entropy(prototype_logits(episode, part, 10.0), truth) for part in (rows, changed)],
        [cross_entropy(objective.classifier(part), labels) for part in (rows, changed)],
    ):
        assert losses[1] > losses[0]


def test_the_loss_is_the_sum_of_its_four_terms(backbone):
    objective, episode = prepared(backbone), tiny_episode()
    found, right = objective.loss(backbone, tiny_episode(), None)
    styles = objective.attack(backbone, episode, labels_of(episode))
    clean = backbone(episode.images)
    changed = backbone(episode.images, lambda layer, tokens: with_style(tokens, 1, styles[1]) if layer == 1 else tokens)
    truth = torch.arange(3).repeat_interleave(3)
    one, other = (prototype_logits(episode, rows, 10.0) for rows in (clean, changed))
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


def test_a_skipped_stage_is_attacked_but_not_changed(backbone):
    objective, episode = prepared(backbone, skip=1.0), tiny_episode()
    assert list(objective.attack(backbone, episode, labels_of(episode))) == [1]
    twice = 2 * cross_entropy(
        prototype_logits(episode, backbone(episode.images), 10.0), torch.arange(3).repeat_interleave(3)
    ) + cross_entropy(objective.classifier(backbone(episode.images)), labels_of(episode))
    torch.testing.assert_close(objective.loss(backbone, episode, None)[0], twice)


def test_stages_are_skipped_with_the_given_chance_and_strengths_are_drawn(backbone, monkeypatch):
    objective, episode = StyleAdversary(strengths=(0.5, 5.0)), tiny_episode()
    objective.prepare(backbone, 5)
    monkeypatch.setattr("cplsr.methods.styleadv.SPREAD", 0.0)
    zero, one = torch.zeros(1, 1, 1), torch.ones(1, 1, 1)
    monkeypatch.setattr(objective, "_gradients", lambda *_: [(zero, one), (zero, one)])
    kept = []
    monkeypatch.setattr(objective, "_styled", lambda styles: kept.append(styles))
    rows = torch.randn(15, 64)
    for draws in range(300):
        objective.loss(lambda *_: rows, replace(episode, generator=torch.Generator().manual_seed(draws)), None)
    found = [styles[1][0].item() if styles else None for styles in kept]
    assert 90 < found.count(None) < 150
    assert min(found.count(0.5), found.count(5.0)) > 60


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
