"""Adversarial task augmentation: the hardened episode against written-out steps, and that it trains."""

from functools import partial

import pytest
import torch
from oracles.tiny_episode import losses_while_training, prepared_objective, tiny_episode
from torch.nn.functional import conv2d, cosine_similarity, cross_entropy

from cplsr.adapters.attach import adapter_of, attach
from cplsr.errors import InputError
from cplsr.methods.ata import RATE, SIZES, AdversarialTasks

TRUTH = torch.arange(3).repeat_interleave(3)

prepared = partial(prepared_objective, AdversarialTasks)


def literal_loss(backbone, images):
    rows = backbone(images).unflatten(0, (3, 5))
    cosines = cosine_similarity(rows[:, 2:].flatten(0, 1)[:, None], rows[:, :2].mean(dim=1)[None], dim=-1)
    return cross_entropy(20 * cosines, TRUTH), (cosines.argmax(1) == TRUTH).double().mean()


def test_hardened_images_are_those_of_steps_written_out(backbone):
    found = prepared(backbone, chance=0.0, steps=2, rate=2.0).harden(backbone, tiny_episode())
    images = backbone.normalize(tiny_episode().images)
    for _ in range(2):
        images = images.detach().requires_grad_()
        literal_loss(backbone, images)[0].backward()
        for number, gradient in enumerate(images.grad.clone()):
            size = gradient.square().mean().sqrt()
            for color in range(3):
                levels = 2.0 * gradient[color] / size
                with torch.no_grad():
                    images[number, color] += levels / 255 / backbone.std[color]
    torch.testing.assert_close(found, images.detach(), rtol=1e-4, atol=1e-4)


def test_ascent_raises_the_loss_and_the_loss_is_that_of_the_result(backbone):
    objective, episode = prepared(backbone, chance=0.0), tiny_episode()
    loss, right = objective.loss(backbone, episode, None)
    wanted, accuracy = literal_loss(backbone, objective.harden(backbone, tiny_episode()))
    torch.testing.assert_close(loss, wanted)
    assert right.item() == pytest.approx(accuracy.item())
    assert loss > literal_loss(backbone, episode.images)[0]


def test_a_convolved_task_is_one_kernel_over_all_normalized_images(backbone):
    found = prepared(backbone, chance=1.0, sizes=(1, 3), steps=0).harden(backbone, tiny_episode(draws=4))
    draws = torch.Generator().manual_seed(4)
    torch.rand((), generator=draws)
    size = (1, 3)[int(torch.randint(2, (1,), generator=draws))]
    kernel = torch.randn(3, 3, size, size, generator=draws) / (3 * size**2) ** 0.5
    images = backbone.normalize(tiny_episode().images)
    torch.testing.assert_close(found, conv2d(images, kernel, padding=size // 2))


def test_as_many_tasks_are_convolved_as_the_chance_says():
    draws = torch.Generator().manual_seed(0)
    assert 70 < sum(AdversarialTasks(chance=0.25).convolves(draws) for _ in range(400)) < 130


def test_the_same_draws_give_the_same_loss_and_others_another(backbone):
    objective = prepared(backbone, chance=1.0, steps=1)
    one, again, other = (objective.loss(backbone, tiny_episode(draws=draws), None)[0] for draws in (0, 0, 1))
    assert torch.equal(one, again)
    assert one != other


@pytest.mark.parametrize("kind", ["full", "coalescent"])
def test_training_lowers_the_loss_and_reaches_every_parameter(backbone, kind):
    attach(backbone, kind)
    losses = losses_while_training(backbone, AdversarialTasks(chance=0.0, steps=2), steps=6, lr=3e-3)
    assert losses[-1] < losses[0]
    assert all(parameter.grad.abs().max() > 0 for parameter in adapter_of(backbone).parameters())


def test_ascent_leaves_no_gradient_on_what_is_trained(backbone):
    attach(backbone, "coalescent")
    images = prepared(backbone, steps=1).harden(backbone, tiny_episode())
    assert not images.requires_grad
    assert all(parameter.grad is None for parameter in adapter_of(backbone).parameters())


def test_options_are_told_with_their_defaults():
    wanted = {"chance": 0.5, "sizes": list(SIZES), "steps": 5, "rate": RATE, "temperature": 20.0}
    assert AdversarialTasks().options == wanted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chance": 1.5}, "chance is 1.5: give a number of at most 1"),
        ({"sizes": (3, 4)}, r"sizes is \[3, 4\]: give odd numbers"),
        ({"sizes": ()}, "sizes is"),
        ({"steps": -1}, "steps is -1"),
        ({"rate": float("nan")}, "rate is nan"),
    ],
)
def test_what_cannot_be_done_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        AdversarialTasks(**options)
