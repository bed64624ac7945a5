"""A small episode of striped images, and some training steps on it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cplsr.adapters.attach import adapter_of
from cplsr.backbones.backbone import Backbone
from cplsr.training.objective import Objective, TrainingEpisode


def striped_episode(
    *, way: int = 3, shot: int = 2, query: int = 3, size: int = 32, images: int = 0, noise: int = 0
) -> TrainingEpisode:
    """A class is the direction of its stripes. `images` seeds the pixels, `noise` what an objective draws."""
    stream = torch.Generator().manual_seed(images)
    rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    parts = []
    for number in range(way):
        angle = torch.tensor(torch.pi * number / way)
        phases = 6 * torch.rand(shot + query, 1, 1, 1, generator=stream)
        stripes = torch.sin((rows * angle.sin() + columns * angle.cos()) / 3 + phases)
        colors = 0.4 + 0.6 * torch.rand(shot + query, 3, 1, 1, generator=stream)
        parts.append(128 + 80 * stripes * colors + 20 * torch.randn(shot + query, 3, size, size, generator=stream))
    return TrainingEpisode(
        pixels=torch.stack(parts).clamp(0, 255).to(torch.uint8),
        shot=shot,
        classes=torch.arange(way),
        generator=torch.Generator().manual_seed(noise),
    )


def train_steps(backbone: Backbone, objective: Objective, steps: int, *, lr: float = 1e-3) -> list[float]:
    """AdamW on one episode and one draw of noise, over and over; the losses."""
    parameters: list[nn.Parameter] = [*adapter_of(backbone).parameters(), *objective.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss, _ = objective.loss(backbone, striped_episode(), None)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def gradients(module: nn.Module) -> dict[str, Tensor]:
    """Gradients by name; an error where a parameter got none."""
    return {name: parameter.grad.clone() for name, parameter in module.named_parameters()}
