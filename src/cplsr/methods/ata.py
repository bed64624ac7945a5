"""Adversarial task augmentation (ATA)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from jaxtyping import Float
from msgspec import Meta
from torch import Tensor

from cplsr.backbones.backbone import Backbone
from cplsr.data.augment import random_convolution
from cplsr.errors import InputError
from cplsr.methods.base import Method, Share, Size, Times, prototype_logits, prototype_loss
from cplsr.settings.numbers import Temperature
from cplsr.training.objective import Embed, Loss, Objective, TrainingEpisode

SIZES = (1, 3, 5, 7, 11, 15)
"""Sides of the random kernels."""
RATE = 0.01
"""Pixel levels, of 255, that one step of ascent moves an image by.

Little, and enough: when all images of an episode move together, five such steps double the loss of a pretrained
backbone; at four times the rate hardly any query is classified rightly.
"""

LEVELS = 255
"""Steps from black to white in a pixel: the unit of a rate that a user gives."""


@dataclass(eq=False)
class Adversary(Objective):
    """An objective that makes tasks harder."""

    chance: Share = 0.5
    """Probability of a random convolution."""
    sizes: Annotated[tuple[int, ...], Meta(min_length=1)] = SIZES
    """Sides that its kernel may have."""
    steps: Times = 5
    """Steps of gradient ascent."""
    rate: Size = RATE
    """Pixel levels that a step moves an image by (root mean square over its pixels)."""
    temperature: Temperature = 20.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(size < 1 or size % 2 == 0 for size in self.sizes):
            raise InputError(f"sizes is {list(self.sizes)}: give odd numbers, kernels have a center")

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """How pixels become what the backbone takes, the length of a step there, and which tokens are patches."""
        self.normalize, self.patches = backbone.normalize, backbone.patches
        self.step = pixel_rate(self.rate, backbone.std).to(backbone.device)

    def convolves(self, generator: torch.Generator) -> bool:
        """Whether the next task is convolved."""
        return torch.rand((), generator=generator).item() < self.chance

    def ascend(
        self, embed: Embed, episode: TrainingEpisode, images: Float[Tensor, "images 3 size size"]
    ) -> Float[Tensor, "images 3 size size"]:
        """Support and query images of an episode moved to where its prototype loss is higher."""

        def loss(moved: Tensor) -> Tensor:
            return prototype_loss(episode, prototype_logits(episode, embed(moved), self.temperature))[0]

        return ascend(images, loss, steps=self.steps, rate=self.step)


@dataclass(eq=False)
class AdversarialTasks(Adversary):
    """Training on tasks that were made hard for the network as it is.

    Wang and Deng, "Cross-Domain Few-Shot Classification via Adversarial Task Augmentation", IJCAI 2021. The worst task
    within a distance of the given one is sought by its Lagrangian: T ← T + β ∂L(T)/∂T from T₀, a few steps, where L is
    the loss of the task's queries and T all its images, support and query alike. T₀ is the given task or, with
    probability `chance`, its random convolution: one kernel for all images, xavier-normal entries, a side from `sizes`.
    The network is then trained on the result alone.

    Values are not clipped to those of a picture, there or here.

    Deviations from the authors' program:

    - It multiplies the raw gradient by a constant that suits the head, 80 for a graph network, 20 for label
      propagation. Here a step moves each image by `rate` pixel levels (root mean square over its pixels), whatever the
      size of its gradient, which under a cosine with a temperature says little.
    - The classifier is that cosine, as for all methods here; theirs are trained networks.
    - Adam at 5e-5 instead of 1e-3 (see `cplsr.methods.base.BACKBONE_SETTINGS`).
    """

    name: ClassVar[str] = "ata"

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """Prototype loss of the hardened episode."""
        logits = prototype_logits(episode, embed(self.harden(embed, episode)), self.temperature)
        return prototype_loss(episode, logits)

    def harden(self, embed: Embed, episode: TrainingEpisode) -> Float[Tensor, "images 3 size size"]:
        """The episode's images, normalized, sometimes convolved, and moved up the loss."""
        images = self.normalize(episode.images)
        if self.convolves(episode.generator):
            images = random_convolution(images, self.sizes, episode.generator)
        return self.ascend(embed, episode, images)


def ascend(
    inputs: Float[Tensor, "batch *shape"],
    loss: Callable[[Tensor], Tensor],
    *,
    steps: int,
    rate: float | Tensor,
) -> Float[Tensor, "batch *shape"]:
    """Move x ← x + rate · `direction`(∂loss/∂x) `steps` times; no gradient flows into the result or parameters."""
    moved = inputs.detach()
    for _ in range(steps):
        moved.requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(loss(moved), moved)
        moved = (moved.detach() + rate * direction(gradient)).detach()
    return moved


def direction(gradient: Float[Tensor, "batch *shape"]) -> Float[Tensor, "batch *shape"]:
    """Each input's gradient scaled to a root mean square of one; a gradient of zero stays zero.

    Images that are told apart well have tiny gradients under a cosine head with a temperature, those near a boundary
    large ones: scaled one by one, a step moves every image equally far.
    """
    rows = gradient.flatten(1)
    # By the largest entry first, since the squares of small numbers vanish.
    rows = rows / _or_one(rows.abs().amax(dim=1, keepdim=True))
    rows = rows / _or_one(rows.square().mean(dim=1, keepdim=True).sqrt())
    return rows.view_as(gradient)


def pixel_rate(levels: float, std: tuple[float, float, float]) -> Float[Tensor, "3 1 1"]:
    """A rate in pixel levels (0 to 255) as one for images that were divided by the channels' `std`."""
    return levels / LEVELS / torch.tensor(std).view(3, 1, 1)


def _or_one(sizes: Tensor) -> Tensor:
    return torch.where(sizes > 0, sizes, 1)


METHOD = Method("ata", "Wang and Deng, IJCAI 2021", AdversarialTasks)
