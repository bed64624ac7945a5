"""Adversarial feature augmentation: who is trained for and who against what."""

import math

import pytest
import torch
from oracles.method_steps import gradients, striped_episode, train_steps
from oracles.random_vit import tiny_vit

from cplsr.adapters.attach import adapter_of, attach
from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError
from cplsr.methods.afa import AdversarialAugmentation, discriminator, domain_loss, gram_difference, ramp
from cplsr.methods.base import prototype_logits
from cplsr.methods.fwt import transform
from cplsr.methods.registry import METHODS, make_objective


def prepared(backbone: Backbone, **options: float) -> AdversarialAugmentation:
    objective = AdversarialAugmentation(**options)
    objective.prepare(backbone, 3)
    return at(0.0, objective)


def at(progress: float, objective: AdversarialAugmentation) -> AdversarialAugmentation:
    """The objective as it is after that share of a run."""
    objective.length = 10_000
    objective.asked.fill_(round(10_000 * progress))
    return objective


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_weights_ramp_from_0_to_046_over_the_run():
    for progress in (0.0, 0.25, 0.5, 1.0):
        assert ramp(progress) == pytest.approx(2 / (1 + math.exp(-progress)) - 1)
    assert ramp(0.0) == 0
    assert ramp(1.0) == pytest.approx(0.46, abs=0.005)


def test_the_noise_keeps_still_then_helps_and_is_the_adversary_at_last(backbone: Backbone):
    attach(backbone, "full")
    objective = prepared(backbone)

    def gradient_at(progress: float, *, plain: bool = False) -> torch.Tensor:
        objective.zero_grad()
        episode = striped_episode()
        if plain:  # the same loss, written without a reversal anywhere
            noise = torch.randn(2, 64, generator=stream())

            def between(layer: int, tokens: torch.Tensor) -> torch.Tensor:
                if layer == 0:
                    return tokens
                spread, mean = torch.std_mean(tokens, (0, 1), correction=0)
                normal = (tokens - mean) / spread
                gamma = 1 + objective.scale[0] * noise[0]
                return (gamma * normal + objective.shift[0] * noise[1]) * spread + mean

            logits = prototype_logits(episode, backbone(episode.images, between), 20.0)
            torch.nn.functional.cross_entropy(logits, torch.arange(3).repeat_interleave(3)).backward()
        else:
            objective.domain = objective.gram = 0.0
            at(progress, objective).loss(backbone, episode, None)[0].backward()
        return torch.cat([objective.scale.grad, objective.shift.grad])

    plain = gradient_at(0.0, plain=True)
    assert plain.abs().max() > 1e-3
    for progress, factor in ((0.0, 0), (0.37, 0), (0.38, 1), (0.62, 1), (0.63, -1), (0.99, -1)):
        torch.testing.assert_close(gradient_at(progress), factor * plain, rtol=1e-2, atol=1e-4)


def test_discriminator_learns_to_tell_what_the_encoder_learns_to_hide():
    judge = discriminator(4, stream())
    original, changed = (torch.randn(5, 4, generator=stream(seed)).requires_grad_() for seed in (1, 2))
    loss = domain_loss(judge, original, changed, 0.3)
    first, norm, _, last = judge
    hidden = first(torch.cat([original, changed]).detach())
    hidden = (hidden - hidden.mean(0)) / (hidden.var(0, unbiased=False) + norm.eps).sqrt() * norm.weight + norm.bias
    scores, total = last(hidden.clamp(min=0)).tolist(), 0.0
    for row in range(10):
        shares = [math.exp(score) / sum(map(math.exp, scores[row])) for score in scores[row]]
        total -= math.log(math.exp(shares[row // 5]) / sum(map(math.exp, shares))) / 10
    assert loss.item() == pytest.approx(total, abs=1e-5)
    loss.backward()
    moved = [(part - part.grad).detach() for part in (original, changed)]
    assert domain_loss(judge, *moved, 0.3) > loss  # a step down the gradient makes it harder to tell
    learned = [parameter.grad.clone() for parameter in judge.parameters()]
    at_03, at_0 = original.grad.clone(), torch.zeros_like(original)
    for weight, wanted in ((0.6, 2 * at_03), (0.0, at_0)):
        for tensor in (original, changed, *judge.parameters()):
            tensor.grad = None
        domain_loss(judge, original, changed, weight).backward()
        torch.testing.assert_close(original.grad, wanted)
        for parameter, gradient in zip(judge.parameters(), learned, strict=True):
            torch.testing.assert_close(parameter.grad, gradient)  # the judge itself learns at full weight
    with torch.no_grad():
        for parameter in judge.parameters():
            parameter -= 0.1 * parameter.grad
    assert domain_loss(judge, original, changed, 0.3) < loss


@pytest.mark.parametrize("sure", [1e4, -1e4])
def test_the_discriminators_loss_is_bounded_however_sure_or_wrong_it_is(sure: float):
    judge = discriminator(4, stream())
    with torch.no_grad():
        judge[0].weight.copy_(torch.eye(1, 4).expand(100, 4))
        judge[3].weight.copy_(sure * torch.tensor([[-1.0], [1.0]]).expand(2, 100))
        judge[3].bias.copy_(sure * torch.tensor([1.0, -1.0]))
    original, changed = torch.zeros(5, 4), torch.ones(5, 4)
    wanted = math.log(1 + 1 / math.e) if sure > 0 else math.log(1 + math.e)
    assert domain_loss(judge, original, changed, 1.0).item() == pytest.approx(wanted, abs=1e-3)


def test_discriminator_takes_nothing_from_the_global_stream():
    before = torch.get_rng_state()
    first, second = (discriminator(4, stream()) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.parametrize("progress", [0.0, 0.8])
@pytest.mark.parametrize(("network", "places"), [("backbone", (1,)), ("six_blocks", (2, 3, 4, 5))])
def test_loss_is_the_sum_of_its_parts(
    network: str, places: tuple[int, ...], progress: float, request: pytest.FixtureRequest
):
    """Two plain forward passes and every term in its own words."""
    backbone = request.getfixturevalue(network)
    attach(backbone, "full")
    objective = prepared(backbone, domain=0.7, gram=1e5)
    assert objective.layers == places
    plain: list[torch.Tensor] = []
    noisy: list[torch.Tensor] = []
    noise = stream()

    def watch(layer: int, tokens: torch.Tensor) -> torch.Tensor:
        plain.extend([tokens] if layer in places else [])
        return tokens

    def disturb(layer: int, tokens: torch.Tensor) -> torch.Tensor:
        if layer not in places:
            return tokens
        noisy.append(transform(tokens, (0.3, 0.5), noise))
        return noisy[-1]

    with torch.no_grad():
        loss, right = at(progress, objective).loss(backbone, striped_episode(), None)
        episode = striped_episode()
        original, changed = backbone(episode.images, watch), backbone(episode.images, disturb)
        targets, rows = torch.arange(3).repeat_interleave(3), episode.grouped(changed)
        logits = 20 * torch.cosine_similarity(rows[:, 2:].flatten(0, 1)[:, None], rows[:, :2].mean(1)[None], dim=-1)
        terms = [torch.nn.functional.cross_entropy(logits, targets)]  # of the augmented episode alone
        assert right.item() == (logits.argmax(1) == targets).double().mean().item()
        differences = []
        for pair in zip(plain, noisy, strict=True):
            normed = []
            for part in pair:
                patches = part[:, 1:]
                variance = patches.var(-1, unbiased=False, keepdim=True)
                normed.append((patches - patches.mean(-1, keepdim=True)) / (variance + 1e-5).sqrt())
            differences.append(gram_difference(*normed))
        assert len(differences) == len(places)
        terms.append(0.7 * domain_loss(objective.discriminator, original, changed, 1.0))
        terms.append(1e5 * (2 / (1 + math.exp(-progress)) - 1) * sum(differences) / len(places))
    assert (terms[2] > 0.01) == (progress > 0)
    torch.testing.assert_close(loss, torch.stack(terms).sum(), rtol=1e-4, atol=1e-4)


def test_noise_raises_the_gram_difference_and_the_encoder_lowers_it(backbone: Backbone):
    attach(backbone, "full")
    objective = prepared(backbone, gram=1e8, domain=0.0)

    def difference() -> float:
        with torch.no_grad():
            return at(0.9, objective).loss(backbone, striped_episode(), None)[0].item()

    start = difference()
    at(0.9, objective).loss(backbone, striped_episode(), None)[0].backward()
    with torch.no_grad():
        for parameter in (objective.scale, objective.shift):
            parameter -= 0.01 * parameter.grad.sign()
        assert difference() > start
        for parameter in (objective.scale, objective.shift):
            parameter += 0.01 * parameter.grad.sign()
        for parameter in adapter_of(backbone).parameters():
            if parameter.grad is not None:
                parameter -= 1e-4 * parameter.grad.sign()
        assert difference() < start


def test_training_lowers_the_loss_and_reaches_everything(backbone: Backbone):
    attach(backbone, "full")
    objective, classification = prepared(backbone), prepared(backbone, domain=0.0, gram=0.0)

    def classified() -> float:
        with torch.no_grad():
            return classification.loss(backbone, striped_episode(), None)[0].item()

    start = classified()
    train_steps(backbone, objective, 15)
    assert classified() < 0.7 * start
    at(0.9, objective).loss(backbone, striped_episode(), None)[0].backward()
    for part in (adapter_of(backbone), objective):
        assert all(gradient.abs().max() > 0 for name, gradient in gradients(part).items() if "bias" not in name)


def test_the_same_noise_for_the_same_stream(backbone: Backbone):
    attach(backbone, "coalescent")
    objective = prepared(backbone)
    with torch.no_grad():
        values = [at(0.5, objective).loss(backbone, striped_episode(noise=n), None)[0].item() for n in (0, 0, 1)]
    assert values[0] == values[1] != values[2]


@pytest.mark.parametrize("option", ["domain", "gram"])
def test_weights_are_not_negative(option: str):
    with pytest.raises(InputError, match=f"the method 'afa': {option} is -1: give a number of at least 0"):
        make_objective(METHODS.find("afa"), {option: -1})


def test_one_block_has_no_between():
    model = tiny_vit()
    model.layers = model.layers[:1]
    model.config.num_hidden_layers = 1
    shallow = Backbone(model, source="shallow", mean=(0.5,) * 3, std=(0.5,) * 3)
    with pytest.raises(InputError, match="'shallow' has only one"):
        prepared(shallow)
