"""Frequency-aware prompting (FAP)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError
from cplsr.methods.ascent import pixel_rate
from cplsr.methods.ata import RATE, SIZES, Adversary, ascend_task
from cplsr.methods.augment import random_convolution
from cplsr.methods.base import BACKBONE_SETTINGS, Method, agreement, prototype_logits, prototype_loss
from cplsr.methods.wavelets import haar2d, inverse_haar2d, pad_to_even
from cplsr.training.objective import Embed, Objective, TrainingEpisode

PLACES = ("tokens", "pixels")


class FrequencyPrompts(Objective):
    """An episode beside two copies without its fine detail, all three made hard, the copies led by the original.

    Zhang et al., "Exploring Cross-Domain Few-Shot Classification via Frequency-Aware Prompting", IJCAI 2024, on top of
    adversarial task augmentation. The high Haar bands of every (normalized) image are replaced by normal noise in one
    copy and by zeros in the other. With probability `chance` all three episodes pass through one random convolution,
    and the original then ascends its loss; otherwise all three ascend, each its own. Mutual attention of an original x
    and its copy y: y ← (x + y) · sigmoid(x ⊙ y) + y, entry by entry. Loss: cross-entropy of the three episodes +
    KL(original ‖ noisy) + KL(original ‖ smooth) of their predictions.

    Ported: the two features that attend to each other are an image's patch tokens as they enter the first block
    (`attention="tokens"`), and the result is halved: where both are small and alike the formula doubles them, which a
    batch norm behind undoes in the authors' networks and nothing would in a transformer. The authors' released program
    has the normalized pixels in place of features (`attention="pixels"`), and in convolved episodes attends both before
    and after the ascent; here it does so once.
    """

    name: ClassVar[str] = "fap"

    def __init__(
        self,
        *,
        attention: str = "tokens",
        noise: float = 1.0,
        chance: float = 0.5,
        sizes: Sequence[int] = SIZES,
        steps: int = 5,
        rate: float = RATE,
        temperature: float = 20.0,
    ) -> None:
        super().__init__()
        if attention not in PLACES:
            raise InputError(f"the option attention of 'fap' is {attention!r}: give {' or '.join(PLACES)}")
        if not 0 <= noise < float("inf"):
            raise InputError(f"the option noise of 'fap' is {noise}: give a standard deviation, not negative")
        self.adversary = Adversary(chance, tuple(sizes), steps, rate)
        self.options = {
            "attention": attention,
            "noise": noise,
            **self.adversary.options(),
            "temperature": temperature,
        }
        self.attention, self.noise, self.temperature = attention, noise, temperature
        self.normalize: Callable[[Tensor], Tensor]
        self.step: Tensor
        self.patches = 0

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """How pixels become what the backbone takes, the length of a step there, and which tokens are patches."""
        self.normalize, self.patches = backbone.normalize, backbone.patches
        self.step = pixel_rate(self.adversary.rate, backbone.std).to(backbone.device)

    def loss(
        self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Three episodes, and the agreement of the copies with the original."""
        images = self.harden(embed, episode)
        rows = embed(attend_to_first(images)) if self.attention == "pixels" else embed(images, self._attend)
        original, *copies = (prototype_logits(episode, part, self.temperature) for part in rows.chunk(3))
        loss, right = prototype_loss(episode, original)
        for logits in copies:
            loss = loss + prototype_loss(episode, logits)[0] + agreement(original, logits)
        return loss, right

    def harden(self, embed: Embed, episode: TrainingEpisode) -> Float[Tensor, "three_times_images 3 size size"]:
        """The original, the noisy and the smooth episode, one after the other, each made hard."""
        adversary, generator = self.adversary, episode.generator
        images = self.normalize(episode.images)
        batch = torch.cat([images, *without_detail(images, self.noise, generator)])
        convolved = adversary.convolves(generator)
        if convolved:
            batch = random_convolution(batch, adversary.sizes, generator)
        ascending = 1 if convolved else 3
        episodes = list(batch.chunk(3))
        for number in range(ascending):
            episodes[number] = ascend_task(
                embed, episode, episodes[number], temperature=self.temperature, steps=adversary.steps, rate=self.step
            )
        return torch.cat(episodes)

    def _attend(self, layer: int, tokens: Tensor) -> Tensor:
        if layer:
            return tokens
        return torch.cat([tokens[:, : -self.patches], attend_to_first(tokens[:, -self.patches :])], dim=1)


def without_detail(
    images: Float[Tensor, "batch 3 height width"], noise: float, generator: torch.Generator
) -> tuple[Float[Tensor, "batch 3 height width"], Float[Tensor, "batch 3 height width"]]:
    """Two copies with their own low Haar band only: one with normal noise in the high bands, one with nothing there."""
    height, width = images.shape[-2:]
    low, high = haar2d(pad_to_even(images))
    drawn = noise * torch.randn(high.shape, generator=generator).to(high)
    noisy, smooth = (inverse_haar2d(low, band)[..., :height, :width] for band in (drawn, torch.zeros_like(high)))
    return noisy, smooth


def mutual_attention(original: Float[Tensor, "*shape"], copy: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The copy led by the original: y + (x + y) · sigmoid(x ⊙ y), each looking at the other where both agree."""
    return copy + (original + copy) * torch.sigmoid(original * copy)


def attend_to_first(batch: Float[Tensor, "three_times_images *shape"]) -> Float[Tensor, "three_times_images *shape"]:
    """Three episodes in one batch: the second and third led by the first, and as large as they were."""
    original, *copies = batch.chunk(3)
    return torch.cat([original, *(mutual_attention(original, copy) / 2 for copy in copies)])


METHOD = Method(
    name="fap",
    reference="Zhang et al., IJCAI 2024",
    trains="backbone",
    sees="base images and labels",
    settings=BACKBONE_SETTINGS,
    objective=FrequencyPrompts,
)
