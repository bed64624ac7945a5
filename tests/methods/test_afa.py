"""Adversarial feature augmentation: who is trained for and who against what."""

import math

import pytest
import torch
from oracles.method_steps import gradients, striped_episode, train_steps
from oracles.random_vit import tiny_vit

from cplsr.adapters.attach import adapter_of, attach
from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError
from cplsr.methods.afa import AdversarialAugmentation, augment, discriminator, domain_loss, gram_difference
from cplsr.methods.fwt import transform


def prepared(backbone: Backbone, **options: float) -> AdversarialAugmentation:
    objective = AdversarialAugmentation(**options)
    objective.prepare(backbone, 3)
    return objective


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_augment_is_gamma_z_plus_beta():
    tokens = torch.randn(2, 3, 4, generator=stream(1))
    scale, shift = torch.tensor([0.3, -1.0, 2.0, 0.0]), torch.tensor([0.5, 1.0, -2.0, 0.1])
    noise = torch.randn(2, 4, generator=stream())
    wanted = torch.zeros_like(tokens)
    for c in range(4):
        gamma = 1 + math.log(1 + math.exp(scale[c])) * noise[0, c]
        beta = math.log(1 + math.exp(shift[c])) * noise[1, c]
        wanted[..., c] = gamma * tokens[..., c] + beta
    torch.testing.assert_close(augment(tokens, scale, shift, stream()), wanted)
    equal = torch.full((4,), 0.3), torch.full((4,), 0.5)
    deviations = (math.log1p(math.exp(0.3)), math.log1p(math.exp(0.5)))
    torch.testing.assert_close(augment(tokens, *equal, stream()), transform(tokens, *deviations, stream()))


def test_the_noise_alone_learns_the_opposite():
    tokens = torch.randn(2, 3, 4, generator=stream(1)).requires_grad_()
    scale, shift = torch.full((4,), 0.3, requires_grad=True), torch.full((4,), 0.5, requires_grad=True)
    augment(tokens, scale, shift, stream()).square().sum().backward()
    noise = torch.randn(2, 4, generator=stream())
    plain = [part.detach().clone().requires_grad_() for part in (tokens, scale, shift)]
    softplus = torch.nn.functional.softplus
    ((1 + softplus(plain[1]) * noise[0]) * plain[0] + softplus(plain[2]) * noise[1]).square().sum().backward()
    torch.testing.assert_close(tokens.grad, plain[0].grad)
    torch.testing.assert_close(scale.grad, -plain[1].grad)
    torch.testing.assert_close(shift.grad, -plain[2].grad)


def test_discriminator_learns_to_tell_what_the_encoder_learns_to_hide():
    judge = discriminator(4, stream())
    original, changed = (torch.randn(5, 4, generator=stream(seed)).requires_grad_() for seed in (1, 2))
    loss = domain_loss(judge, original, changed)
    guesses = judge(torch.cat([original, changed])).sigmoid().squeeze(1)
    wanted = -(torch.log(1 - guesses[:5]).sum() + torch.log(guesses[5:]).sum()) / 10
    torch.testing.assert_close(loss, wanted)
    loss.backward()
    moved = [(part - 0.1 * part.grad).detach() for part in (original, changed)]
    assert domain_loss(judge, *moved) > loss  # a step down the gradient makes it harder to tell
    with torch.no_grad():
        for parameter in judge.parameters():
            parameter -= 0.1 * parameter.grad
    assert domain_loss(judge, original, changed) < loss


def test_discriminator_takes_nothing_from_the_global_stream():
    before = torch.get_rng_state()
    first, second = (discriminator(4, stream()) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_loss_is_the_sum_of_its_four_parts(backbone: Backbone):
    """Two plain forward passes and every term in its own words; the tiny network has one stage, before block 1."""
    attach(backbone, "full")
    objective = prepared(backbone, domain=0.7, gram=0.3)
    assert objective.layers == (1,)
    seen: dict[str, torch.Tensor] = {}

    def watch(layer: int, tokens: torch.Tensor) -> torch.Tensor:
        if layer == 1:
            seen["original"] = tokens
            seen["changed"] = augment(tokens, objective.scale[0], objective.shift[0], stream())
            return seen["changed"]
        return tokens

    with torch.no_grad():
        loss, right = objective.loss(backbone, striped_episode(), None)
        episode = striped_episode()
        original, changed = backbone(episode.images), backbone(episode.images, watch)
        targets, terms = torch.arange(3).repeat_interleave(3), []
        for rows in (episode.grouped(original), episode.grouped(changed)):
            logits = 20 * torch.cosine_similarity(rows[:, 2:].flatten(0, 1)[:, None], rows[:, :2].mean(1)[None], dim=-1)
            terms.append(torch.nn.functional.cross_entropy(logits, targets))
            if len(terms) == 1:
                assert right.item() == (logits.argmax(1) == targets).double().mean().item()
        normed = []
        for part in seen.values():
            patches = part[:, 1:]
            variance = patches.var(-1, unbiased=False, keepdim=True)
            normed.append((patches - patches.mean(-1, keepdim=True)) / (variance + 1e-5).sqrt())
        terms.append(0.7 * domain_loss(objective.discriminator, original, changed))
        terms.append(0.3 * gram_difference(*normed))
    assert all(term > 0.01 for term in terms)
    torch.testing.assert_close(loss, torch.stack(terms).sum(), rtol=1e-4, atol=1e-4)


def test_noise_raises_the_gram_difference_and_the_encoder_lowers_it(backbone: Backbone):
    attach(backbone, "full")
    objective = prepared(backbone)
    gram_only = prepared(backbone, gram=1e4, domain=0.0)

    def difference() -> float:
        with torch.no_grad():
            with_it = gram_only.loss(backbone, striped_episode(), None)[0]
            gram_only.gram = 0.0
            without = gram_only.loss(backbone, striped_episode(), None)[0]
            gram_only.gram = 1e4
        return (with_it - without).item()

    start = difference()
    gram_only.loss(backbone, striped_episode(), None)[0].backward()
    with torch.no_grad():
        for parameter in (gram_only.scale, gram_only.shift):
            parameter -= 0.01 * parameter.grad.sign()
        assert difference() > start
        for parameter in (gram_only.scale, gram_only.shift):
            parameter += 0.01 * parameter.grad.sign()
        for parameter in adapter_of(backbone).parameters():
            if parameter.grad is not None:
                parameter -= 1e-4 * parameter.grad.sign()
        assert difference() < start
    assert torch.equal(objective.scale, torch.full((1, 64), 0.3))


def test_training_lowers_the_loss_and_reaches_everything(backbone: Backbone):
    attach(backbone, "full")
    objective, classification = prepared(backbone), prepared(backbone, domain=0.0, gram=0.0)

    def classified() -> float:
        with torch.no_grad():
            return classification.loss(backbone, striped_episode(), None)[0].item()

    start = classified()
    losses = train_steps(backbone, objective, 15)
    assert losses[-1] < 0.85 * losses[0]  # the adversaries keep their part of it up
    assert classified() < 0.7 * start
    for part in (adapter_of(backbone), objective):
        assert all(gradient.abs().max() > 0 for name, gradient in gradients(part).items() if "bias" not in name)


def test_the_same_noise_for_the_same_stream(backbone: Backbone):
    attach(backbone, "coalescent")
    objective = prepared(backbone)
    with torch.no_grad():
        values = [objective.loss(backbone, striped_episode(noise=noise), None)[0].item() for noise in (0, 0, 1)]
    assert values[0] == values[1] != values[2]


def test_one_block_has_no_between():
    model = tiny_vit()
    model.layers = model.layers[:1]
    model.config.num_hidden_layers = 1
    shallow = Backbone(model, source="shallow", mean=(0.5,) * 3, std=(0.5,) * 3)
    with pytest.raises(InputError, match="'shallow' has only one"):
        prepared(shallow)
