"""What makes steps of gradients, and how large they are over a run."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from cplsr.settings.training import TrainingSettings

MOMENTUM = 0.9


def make_optimizer(
    settings: TrainingSettings, adapter: Iterable[nn.Parameter], objective: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """An optimizer of two groups: the adapter's parameters, and those the objective has of its own.

    Whether it was resumed or not, `set_rates` says the rate of every step: the optimizer's own state has none.
    """
    own = settings.lr if settings.objective_lr is None else settings.objective_lr
    groups = [
        {"params": list(parameters), "lr": rate, "highest_lr": rate}
        for parameters, rate in ((adapter, settings.lr), (objective, own))
    ]
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=MOMENTUM, weight_decay=settings.weight_decay)
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, weight_decay=settings.weight_decay)


def set_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Let the rates of all groups be this share of their highest."""
    for group in optimizer.param_groups:
        group["lr"] = factor * group["highest_lr"]


def rate_factor(settings: TrainingSettings, step: int, steps: int) -> float:
    """The learning rate of a step as a share of the highest, where `steps` are taken in all and `step` counts from 0.

    Over the w steps of the warm-up it is (step + 1) / w. From there on it is 1, or with the cosine schedule
    ½ (1 + cos(π t)), where t goes from 0 behind the warm-up to 1 at the end of the run.
    """
    warm = round(settings.warmup * steps)
    if step < warm:
        return (step + 1) / warm
    if settings.schedule == "constant":
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm)))
