"""Adversarial task augmentation (ATA)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError
from cplsr.methods.ascent import ascend, pixel_rate
from cplsr.methods.augment import random_convolution
from cplsr.methods.base import BACKBONE_SETTINGS, Method, prototype_logits, prototype_loss
from cplsr.training.objective import Embed, Objective, TrainingEpisode

SIZES = (1, 3, 5, 7, 11, 15)
"""Sides of the random kernels."""
RATE = 0.01
"""Pixel levels, of 255, that one step of ascent moves an image by.

Little, and enough: when all images of an episode move together, five such steps double the loss of a pretrained
backbone; at four times the rate hardly any query is classified rightly.
"""


@dataclass(frozen=True)
class Adversary:
    """How a task is made harder.

    A random convolution with probability `chance`, its side one of `sizes`; and `steps` of gradient ascent, each as
    long as `rate` pixel levels (root mean square over an image).
    """

    chance: float
    sizes: tuple[int, ...]
    steps: int
    rate: float

    def __post_init__(self) -> None:
        """Refuse what cannot be done."""
        if not 0 <= self.chance <= 1:
            raise InputError(f"the option chance is {self.chance}: give a probability from 0 to 1")
        if not self.sizes or any(size < 1 or size % 2 == 0 for size in self.sizes):
            raise InputError(f"the option sizes is {list(self.sizes)}: give odd numbers, kernels have a center")
        for name, value in (("steps", self.steps), ("rate", self.rate)):
            if not 0 <= value < float("inf"):
                raise InputError(f"the option {name} is {value}: give a number that is not negative")

    def options(self) -> dict[str, Any]:
        """By name, as a recipe has them."""
        return {"chance": self.chance, "sizes": list(self.sizes), "steps": self.steps, "rate": self.rate}

    def convolves(self, generator: torch.Generator) -> bool:
        """Whether the next task is convolved."""
        return torch.rand((), generator=generator).item() < self.chance


class AdversarialTasks(Objective):
    """Training on tasks that were made hard for the network as it is.

    Wang and Deng, "Cross-Domain Few-Shot Classification via Adversarial Task Augmentation", IJCAI 2021. The worst task
    within a distance of the given one is sought by its Lagrangian: T ← T + β ∂L(T)/∂T from T₀, a few steps, where L is
    the loss of the task's queries and T all its images, support and query alike. T₀ is the given task or, with
    probability `chance`, its random convolution: one kernel for all images, xavier-normal entries, a side from `sizes`.
    The network is then trained on the result alone.

    Ported: nothing depends on the network, only β does. Where the authors multiply the raw gradient by a constant that
    suits their heads, here a step moves each image by `rate` pixel levels (root mean square over its pixels), whatever
    the size of its gradient, which under a cosine head with a temperature says little. Values are not clipped to those
    of a picture.
    """

    name: ClassVar[str] = "ata"

    def __init__(
        self,
        *,
        chance: float = 0.5,
        sizes: Sequence[int] = SIZES,
        steps: int = 5,
        rate: float = RATE,
        temperature: float = 20.0,
    ) -> None:
        super().__init__()
        self.adversary = Adversary(chance, tuple(sizes), steps, rate)
        self.options = {**self.adversary.options(), "temperature": temperature}
        self.temperature = temperature
        self.normalize: Callable[[Tensor], Tensor]
        self.step: Tensor

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """How pixels become what the backbone takes, and the length of a step there."""
        self.normalize = backbone.normalize
        self.step = pixel_rate(self.adversary.rate, backbone.std).to(backbone.device)

    def loss(
        self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Prototype loss of the hardened episode."""
        logits = prototype_logits(episode, embed(self.harden(embed, episode)), self.temperature)
        return prototype_loss(episode, logits)

    def harden(self, embed: Embed, episode: TrainingEpisode) -> Float[Tensor, "images 3 size size"]:
        """The episode's images, normalized, sometimes convolved, and moved up the loss."""
        adversary = self.adversary
        images = self.normalize(episode.images)
        if adversary.convolves(episode.generator):
            images = random_convolution(images, adversary.sizes, episode.generator)
        return ascend_task(embed, episode, images, temperature=self.temperature, steps=adversary.steps, rate=self.step)


def ascend_task(
    embed: Embed,
    episode: TrainingEpisode,
    images: Float[Tensor, "images 3 size size"],
    *,
    temperature: float,
    steps: int,
    rate: Float[Tensor, "3 1 1"],
) -> Float[Tensor, "images 3 size size"]:
    """Support and query images of an episode moved to where its prototype loss is higher."""

    def loss(moved: Tensor) -> Tensor:
        return prototype_loss(episode, prototype_logits(episode, embed(moved), temperature))[0]

    return ascend(images, loss, steps=steps, rate=rate)


METHOD = Method(
    name="ata",
    reference="Wang and Deng, IJCAI 2021",
    trains="backbone",
    sees="base images and labels",
    settings=BACKBONE_SETTINGS,
    objective=AdversarialTasks,
)
