"""Small training episodes whose classes can be told apart, and a few steps of training on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from cplsr.backbones.backbone import Backbone
from cplsr.training.objective import Objective, TrainingEpisode

Made = TypeVar("Made", bound=Objective)


def class_images(way: int, each: int, *, size: int = 32, seed: int = 0) -> Tensor:
    """(way, each, 3, size, size) bytes: a class is a faint pattern of its own under noise."""
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.randn(way, 1, 3, 4, 4, generator=generator)
    patterns = patterns.repeat_interleave(size // 4, -1).repeat_interleave(size // 4, -2)
    noise = torch.randn(way, each, 3, size, size, generator=generator)
    return (128 + 25 * patterns + 40 * noise).clamp(0, 255).to(torch.uint8)


def tiny_episode(way: int = 3, shot: int = 2, query: int = 3, *, seed: int = 0, draws: int = 0) -> TrainingEpisode:
    """An episode; `draws` seeds its own random stream."""
    return TrainingEpisode(
        pixels=class_images(way, shot + query, seed=seed),
        shot=shot,
        classes=torch.arange(way) + 1,
        generator=torch.Generator().manual_seed(draws),
    )


def prepared_objective(kind: Callable[..., Made], backbone: Backbone, **options: Any) -> Made:
    """An objective of one kind, prepared for five classes."""
    objective = kind(**options)
    objective.prepare(backbone, 5)
    return objective


def losses_while_training(backbone: Backbone, objective: Objective, *, steps: int, lr: float) -> list[float]:
    """The loss of one and the same episode, step after step, with the same random draws in each."""
    objective.prepare(backbone, 5)
    parameters = [parameter for parameter in backbone.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW([*parameters, *objective.parameters()], lr=lr)
    losses = []
    for _ in range(steps):
        loss, _ = objective.loss(backbone, tiny_episode(), tiny_episode(seed=1, draws=1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
