"""Pre-train, meta-train, fine-tune (PMF)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from cplsr.adapters.attach import adapter_of
from cplsr.backbones.backbone import Backbone
from cplsr.episodes.prototypes import cosine_logits, prototypes
from cplsr.methods.augment import color_jitter, flip, sometimes, translate
from cplsr.methods.base import Adaptation, Method, prototype_logits, prototype_loss
from cplsr.training.objective import Embed, Objective, TrainingEpisode

SCALE = 10.0
"""Where the learned factor of the cosines starts, and what it is at test time."""


class MetaTraining(Objective):
    """Prototype loss with a learned scale and bias: s · (cos + b), s from 10, b from 0.

    Hu et al., "Pushing the Limits of Simple Pipelines for Few-Shot Learning: External Data and Fine-Tuning Make a
    Difference", CVPR 2022. Made for transformers, so nothing had to be ported.
    """

    name: ClassVar[str] = "pmf"

    def __init__(self, *, scale: float = SCALE) -> None:
        super().__init__()
        self.options = {"scale": scale}
        self.scale = nn.Parameter(torch.tensor(scale))
        self.bias = nn.Parameter(torch.tensor(0.0))

    def loss(
        self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Prototype loss of the episode."""
        cosines = prototype_logits(episode, embed(episode.images), 1.0)
        return prototype_loss(episode, self.scale * (cosines + self.bias))


class FineTuning(Adaptation):
    """Fine-tune on the support set: prototypes of the clean images, loss of augmented copies of the same images.

    The learning rate (0: none) is chosen on the support set alone: one image of each class makes the prototypes, the
    others are validation images. With one shot there is nothing to choose with, and nothing is tuned.

    The authors choose one rate per domain with labeled queries of five episodes; here no query label is ever seen.
    """

    def __init__(
        self,
        *,
        rates: tuple[float, ...] | list[float] = (0.0, 1e-5, 1e-4, 5e-4),
        steps: int = 40,
        trial_steps: int = 10,
    ) -> None:
        self.rates, self.steps, self.trial_steps = tuple(rates), steps, trial_steps

    def logits(
        self,
        backbone: Backbone,
        support: UInt8[Tensor, "way shot 3 size size"],
        query: UInt8[Tensor, "queries 3 size size"],
        generator: torch.Generator,
    ) -> Float[Tensor, "queries way"]:
        """Choose the rate, tune, predict; the backbone's parameters are as before when it returns."""
        rate = self.choose_rate(backbone, support, generator)
        with _restored(backbone):
            tune(backbone, support, support, rate=rate, steps=self.steps, generator=generator)
            return predict(backbone, support, query)

    def choose_rate(
        self, backbone: Backbone, support: UInt8[Tensor, "way shot 3 size size"], generator: torch.Generator
    ) -> float:
        """The rate with the lowest loss on support images that were not tuned on; of equals the smaller."""
        way, shot = support.shape[:2]
        if shot < 2:
            return 0.0
        known, held = support[:, :1], support[:, 1:]
        targets = torch.arange(way).repeat_interleave(shot - 1)
        losses = []
        for rate in self.rates:
            with _restored(backbone):
                tune(backbone, known, known, rate=rate, steps=self.trial_steps, generator=generator)
                losses.append(cross_entropy(predict(backbone, known, held.flatten(0, 1)), targets).item())
        return self.rates[losses.index(min(losses))]


def tune(
    backbone: Backbone,
    clean: UInt8[Tensor, "way shot 3 size size"],
    images: UInt8[Tensor, "way shot 3 size size"],
    *,
    rate: float,
    steps: int,
    generator: torch.Generator,
) -> None:
    """AdamW steps on augmented copies of `images` against the prototypes of `clean`; the rate falls as a cosine."""
    if rate == 0:
        return
    parameters = [parameter for parameter in adapter_of(backbone).parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.05)
    way, shot = images.shape[:2]
    targets = torch.arange(way).repeat_interleave(shot).to(backbone.device)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * 0.5 * (1 + math.cos(math.pi * step / steps))
        changed = backbone.normalize(augment(images.flatten(0, 1), generator))
        rows = backbone(torch.cat([backbone.normalize(clean.flatten(0, 1)), changed]))
        centers = prototypes(rows[: clean.shape[0] * clean.shape[1]].unflatten(0, clean.shape[:2]))
        loss = cross_entropy(cosine_logits(rows[-len(changed) :], centers, SCALE), targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def augment(
    images: UInt8[Tensor, "images 3 size size"], generator: torch.Generator
) -> UInt8[Tensor, "images 3 size size"]:
    """Flip, color jitter of 0.4 and translation by up to an eighth, the last two each with probability 0.9."""
    changed = flip(images.float() / 255, generator)
    changed = sometimes(color_jitter(changed, 0.4, generator), changed, 0.9, generator)
    changed = sometimes(translate(changed, 0.125, generator), changed, 0.9, generator)
    return (changed * 255).round().to(torch.uint8)


def predict(
    backbone: Backbone, support: UInt8[Tensor, "way shot 3 size size"], query: UInt8[Tensor, "queries 3 size size"]
) -> Float[Tensor, "queries way"]:
    """Scores of the queries for the prototypes of the support set."""
    with torch.inference_mode():
        rows = backbone(torch.cat([support.flatten(0, 1), query])).cpu()
        known = support.shape[0] * support.shape[1]
        return cosine_logits(rows[known:], prototypes(rows[:known].unflatten(0, support.shape[:2])), SCALE)


@contextmanager
def _restored(backbone: Backbone) -> Iterator[None]:
    adapter = adapter_of(backbone)
    before = {name: tensor.detach().clone() for name, tensor in adapter.state_dict().items()}
    try:
        yield
    finally:
        adapter.load_state_dict(before)


METHOD = Method(
    name="pmf",
    reference="Hu et al., CVPR 2022",
    trains="backbone",
    sees="base images and labels; the support set of a target episode",
    settings={"lr": 5e-5, "weight_decay": 0.05, "sst": False, "pe": False},
    objective=MetaTraining,
    adaptation=FineTuning,
)
