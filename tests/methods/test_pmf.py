"""PMF: the loss, fine-tuning on the support set alone, and that nothing of it stays."""

import pytest
import torch
from oracles.tiny_episode import class_images, losses_while_training, tiny_episode
from torch.nn.functional import cosine_similarity, cross_entropy

from cplsr.adapters.attach import adapter_of, attach
from cplsr.adapters.kinds import KINDS
from cplsr.errors import InputError
from cplsr.methods import pmf
from cplsr.methods.pmf import FineTuning, MetaTraining, augment, predict, tune


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def weights(backbone):
    return {name: tensor.detach().clone() for name, tensor in adapter_of(backbone).state_dict().items()}


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_the_loss_is_the_cross_entropy_of_scaled_cosines(backbone):
    episode = tiny_episode()
    found, right = MetaTraining(scale=7.0).loss(backbone, episode, None)
    rows = backbone(episode.images).unflatten(0, (3, 5))
    cosines = cosine_similarity(rows[:, 2:].flatten(0, 1)[:, None], rows[:, :2].mean(dim=1)[None], dim=-1)
    truth = torch.arange(3).repeat_interleave(3)
    torch.testing.assert_close(found, cross_entropy(7 * cosines, truth))
    assert right.item() == pytest.approx((cosines.argmax(1) == truth).double().mean().item())


@pytest.mark.parametrize("kind", ["full", "coalescent"])
def test_training_lowers_the_loss_and_learns_the_scale_too(backbone, kind):
    attach(backbone, kind)
    objective = MetaTraining()
    losses = losses_while_training(backbone, objective, steps=6, lr=3e-3)
    assert losses[-1] < losses[0]
    assert objective.scale.item() != 10
    assert all(parameter.grad is not None for parameter in adapter_of(backbone).parameters())


def test_tuning_is_adam_at_one_rate_on_augmented_copies_against_clean_prototypes(backbone):
    attach(backbone, "coalescent")
    support = class_images(3, 2)
    start = weights(backbone)
    tune(backbone, support, rate=1e-2, steps=2, generator=seeded(4))
    found = weights(backbone)
    adapter_of(backbone).load_state_dict(start)

    parameters = list(adapter_of(backbone).parameters())
    first = [torch.zeros_like(p) for p in parameters]
    second = [torch.zeros_like(p) for p in parameters]
    draws, truth = seeded(4), torch.arange(3).repeat_interleave(2)
    for step in range(2):
        copies = augment(support.flatten(0, 1), draws)
        centers = backbone(support.flatten(0, 1)).unflatten(0, (3, 2)).mean(dim=1)
        loss = cross_entropy(10 * cosine_similarity(backbone(copies)[:, None], centers[None], dim=-1), truth)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for p, g, m, v in zip(parameters, gradients, first, second, strict=True):
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                p.sub_(1e-2 * (m / (1 - 0.9 ** (step + 1))) / ((v / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8))
    for name, tensor in weights(backbone).items():
        torch.testing.assert_close(found[name], tensor, atol=2e-3, rtol=0)
        assert (found[name] - start[name]).abs().max() > 5e-3


def test_the_optimizer_of_tuning_is_adam_without_decay(backbone, monkeypatch):
    attach(backbone, "coalescent")
    made, real = [], torch.optim.Optimizer.__init__

    def seen(self, *arguments):
        made.append(self)
        real(self, *arguments)

    monkeypatch.setattr(torch.optim.Optimizer, "__init__", seen)
    tune(backbone, class_images(3, 2), rate=1e-2, steps=1, generator=seeded())
    (optimizer,) = made
    assert type(optimizer) is torch.optim.Adam
    assert [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups] == [(1e-2, 0)]


def test_an_adapter_without_parameters_cannot_be_tuned(backbone):
    attach(backbone, "attention_temperature")
    with pytest.raises(InputError, match="no parameters, so there is nothing to tune"):
        FineTuning(rates=(1e-2,)).logits(backbone, class_images(3, 2), class_images(3, 1).flatten(0, 1), seeded())


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"lora", "attention_temperature"}))
def test_after_an_episode_every_kind_of_adapter_is_what_it_was(backbone, kind):
    attach(backbone, kind)
    before = weights(backbone)
    support, query = class_images(3, 2), class_images(3, 3, seed=1).flatten(0, 1)
    untuned = predict(backbone, support, query)
    tuned = FineTuning(rates=(1e-2,), steps=2, trial_steps=1).logits(backbone, support, query, seeded())
    assert tuned.shape == (9, 3)
    assert not torch.allclose(tuned, untuned, atol=1e-4)
    assert same(before, weights(backbone))
    torch.testing.assert_close(predict(backbone, support, query), untuned)


def test_it_is_put_back_when_something_goes_wrong(backbone, monkeypatch):
    attach(backbone, "full")
    before = weights(backbone)

    def broken(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(pmf, "predict", broken)
    with pytest.raises(RuntimeError, match="no"):
        FineTuning(steps=1).logits(backbone, class_images(2, 1), class_images(2, 1).flatten(0, 1), seeded())
    assert same(before, weights(backbone))


def test_with_one_shot_nothing_is_tuned(backbone):
    attach(backbone, "full")
    support, query = class_images(3, 1), class_images(3, 3, seed=1).flatten(0, 1)
    found = FineTuning(rates=(1e-1,), steps=2).logits(backbone, support, query, seeded())
    assert torch.equal(found, predict(backbone, support, query))


def test_the_rate_is_the_best_on_support_images_that_were_not_tuned_on(backbone, monkeypatch):
    attach(backbone, "coalescent")
    support = class_images(3, 3)
    tuned, asked = [], []
    real = pmf.tune
    monkeypatch.setattr(pmf, "tune", lambda b, s, **o: (tuned.append((s, o["rate"], o["steps"])), real(b, s, **o)))
    method = FineTuning(rates=(1e-2, 0.0, 0.3), steps=9, trial_steps=2)

    def scored(b, s, q):
        asked.append((s, q))
        sure, wrong = {0: (0.1, 1), 1: (0.1, 0), 2: (9.0, 1)}[len(asked) - 1]  # surer, and more often wrong
        scores = sure * torch.eye(3).repeat_interleave(2, dim=0)
        scores[:wrong] = scores[:wrong].roll(1, dims=1)
        return scores

    monkeypatch.setattr(pmf, "predict", scored)
    assert method.choose_rate(backbone, support, seeded()) == 1e-2
    assert [(rate, steps) for _, rate, steps in tuned] == [(0.0, 2), (1e-2, 2), (0.3, 2)]
    for known, held in asked:
        assert torch.equal(known, support[:, :1])
        assert torch.equal(held, support[:, 1:].flatten(0, 1))
    assert FineTuning().options == {"rates": [0.0, 1e-4, 5e-4, 1e-3], "steps": 40, "trial_steps": 50}
    monkeypatch.setattr(pmf, "predict", lambda *_: torch.zeros(6, 3))
    assert method.choose_rate(backbone, support, seeded()) == 0.0  # of equals the smallest


def test_fine_tuning_lowers_the_loss_of_augmented_copies_it_has_not_seen(backbone):
    attach(backbone, "full")
    support = class_images(3, 4)
    copies = torch.cat([augment(support.flatten(0, 1), seeded(100 + number)) for number in range(8)])
    truth = torch.arange(3).repeat_interleave(4).repeat(8)
    before = cross_entropy(predict(backbone, support, copies), truth)
    tune(backbone, support, rate=1e-3, steps=8, generator=seeded())
    assert cross_entropy(predict(backbone, support, copies), truth) < before


def test_the_answer_to_a_query_does_not_depend_on_where_it_stands(backbone):
    attach(backbone, "full")
    support, query = class_images(3, 2), class_images(3, 3, seed=1).flatten(0, 1)
    method = FineTuning(rates=(1e-3,), steps=2, trial_steps=1)
    order = torch.randperm(9, generator=seeded(3))
    plain = method.logits(backbone, support, query, seeded())
    shuffled = method.logits(backbone, support, query[order], seeded())
    torch.testing.assert_close(shuffled, plain[order], atol=1e-4, rtol=1e-4)
    assert torch.equal(plain, method.logits(backbone, support, query, seeded()))
    assert not torch.equal(plain, method.logits(backbone, support, query, seeded(1)))


def test_augmented_images_are_bytes_changed_as_the_arguments_say():
    images = class_images(4, 5).flatten(0, 1)
    assert augment(images, seeded()).dtype == torch.uint8
    assert not torch.equal(augment(images, seeded()), augment(images, seeded(1)))
    still = augment(images, seeded(), chance=0.0)
    mirrored = [torch.equal(new, old.flip(-1)) for new, old in zip(still, images, strict=True)]
    assert all(torch.equal(n, o) or m for n, o, m in zip(still, images, mirrored, strict=True))
    assert 0 < sum(mirrored) < 20
    moved = augment(images, seeded(), jitter=0.0, chance=1.0)
    black = (moved == 0).all(dim=1)  # (images, rows, columns)
    edges = black.all(dim=2).sum(dim=1)
    assert edges.max() == 4  # an eighth of 32 rows


@pytest.mark.parametrize("options", [{"rates": ()}, {"rates": (-1.0,)}, {"steps": 0}, {"trial_steps": 0}])
def test_wrong_options_are_refused(options):
    with pytest.raises(InputError, match=rf"^{next(iter(options))} is .*: give"):
        FineTuning(**options)
    with pytest.raises(InputError, match=r"scale is 0\.0: give a number above 0"):
        MetaTraining(scale=0.0)
