"""Rates against their formula, steps against written-out ones, and that a run takes exactly these."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from cplsr import TrainingSettings, load_backbone, train
from cplsr.adapters.store import read_adapter_info
from cplsr.methods.pmf import MetaTraining
from cplsr.training.optimizer import make_optimizer, rate_factor, set_rates

SETTINGS = TrainingSettings(
    way=2, shot=1, query=1, episodes=6, episodes_per_step=2, pe=False, validation_episodes=4, validate_every=0,
    optimizer="sgd", lr=0.01, objective_lr=0.5, schedule="cosine", warmup=0.3,
)  # fmt: skip


@pytest.mark.parametrize(
    ("schedule", "warmup", "wanted"),
    [
        ("constant", 0.0, [1, 1, 1, 1, 1]),
        ("constant", 0.4, [1 / 2, 1, 1, 1, 1]),
        ("constant", 1.0, [1 / 5, 2 / 5, 3 / 5, 4 / 5, 1]),
        ("cosine", 0.0, [0.5 * (1 + math.cos(math.pi * share)) for share in (0, 0.2, 0.4, 0.6, 0.8)]),
        ("cosine", 0.2, [1, 1, 0.5 + math.sqrt(2) / 4, 0.5, 0.5 - math.sqrt(2) / 4]),
        ("cosine", 1.0, [1 / 5, 2 / 5, 3 / 5, 4 / 5, 1]),
    ],
)
def test_rates_rise_in_the_warm_up_and_fall_as_a_cosine(schedule, warmup, wanted):
    settings = TrainingSettings(schedule=schedule, warmup=warmup)
    assert [rate_factor(settings, step, 5) for step in range(5)] == pytest.approx(wanted)
    assert rate_factor(settings, 999, 1000) == pytest.approx(
        1.0 if warmup == 1 or schedule == "constant" else 0, abs=1e-5
    )


def two_parameters() -> list[nn.Parameter]:
    return [nn.Parameter(torch.tensor([2.0, -3.0])), nn.Parameter(torch.tensor([5.0]))]


def steps(optimizer, parameters, gradients) -> None:
    for gradient in gradients:
        for parameter in parameters:
            parameter.grad = torch.full_like(parameter, gradient)
        optimizer.step()


def test_sgd_has_momentum_and_each_group_its_rate():
    parameters = two_parameters()
    settings = TrainingSettings(optimizer="sgd", lr=0.1, objective_lr=0.4, weight_decay=0.5)
    optimizer = make_optimizer(settings, parameters[:1], parameters[1:])
    set_rates(optimizer, 0.5)
    steps(optimizer, parameters, (1.0, -2.0))
    for parameter, start, rate in zip(parameters, two_parameters(), (0.05, 0.2), strict=True):
        wanted, speed = start.detach().clone(), torch.zeros_like(start)
        for gradient in (1.0, -2.0):
            speed = 0.9 * speed + gradient + 0.5 * wanted
            wanted = wanted - rate * speed
        torch.testing.assert_close(parameter.detach(), wanted)


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_decay_is_part_of_the_gradient_or_beside_it(kind):
    parameters = two_parameters()
    optimizer = make_optimizer(TrainingSettings(optimizer=kind, lr=0.1, weight_decay=0.5), parameters, [])
    steps(optimizer, parameters, (0.5,))
    for parameter, start in zip(parameters, two_parameters(), strict=True):
        gradient = 0.5 + 0.5 * start if kind == "adam" else torch.full_like(start, 0.5)
        wanted = start - 0.1 * gradient.sign() - (0.1 * 0.5 * start if kind == "adamw" else 0)  # a first step is a sign
        torch.testing.assert_close(parameter.detach(), wanted.detach())


def test_the_objective_learns_at_the_common_rate_unless_it_has_one_of_its_own():
    for own, wanted in ((None, 0.25), (3.0, 3.0)):
        optimizer = make_optimizer(TrainingSettings(lr=0.25, objective_lr=own), *([one] for one in two_parameters()))
        assert [group["lr"] for group in optimizer.param_groups] == [0.25, wanted]


@pytest.mark.parametrize("sst", [True, False])
def test_a_run_takes_every_step_at_the_rate_of_its_number(checkpoint_file, tiny, tmp_path, monkeypatch, sst):
    taken = []
    real = torch.optim.SGD.step
    monkeypatch.setattr(
        torch.optim.SGD, "step", lambda self: taken.append([group["lr"] for group in self.param_groups]) or real(self)
    )
    settings = replace(SETTINGS, sst=sst)
    objective = MetaTraining()
    backbone = load_backbone(checkpoint_file, heads=2)
    train(backbone, tiny, out=tmp_path / "run", settings=settings, objective=objective, workers=0)
    count = 12 if sst else 3
    factors = [rate_factor(settings, step, count) for step in range(count)]
    assert taken == [[pytest.approx(0.01 * factor), pytest.approx(0.5 * factor)] for factor in factors]
    assert objective.scale.item() != 10
    assert read_adapter_info(tmp_path / "run").temperature == pytest.approx(objective.scale.item())
