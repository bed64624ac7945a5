"""Frequency-aware prompting (FAP)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from cplsr.data.augment import random_convolution
from cplsr.methods.ata import Adversary
from cplsr.methods.base import Method, Size, agreement, prototype_logits, prototype_loss
from cplsr.methods.style import entering
from cplsr.methods.wavelets import haar2d, inverse_haar2d, pad_to_even
from cplsr.training.objective import Embed, Loss, TrainingEpisode


@dataclass(eq=False)
class FrequencyPrompts(Adversary):
    """An episode beside two copies without its fine detail, all three made hard, the copies led by the original.

    Zhang et al., "Exploring Cross-Domain Few-Shot Classification via Frequency-Aware Prompting", IJCAI 2024, on top of
    adversarial task augmentation. The high Haar bands of every (normalized) image are replaced by normal noise in one
    copy and by zeros in the other. With probability `chance` all three episodes pass through one random convolution,
    and the original then ascends its loss; otherwise all three ascend, each its own. Mutual attention of an original x
    and its copy y: y ← (x + y) · sigmoid(x ⊙ y) + y, entry by entry. Loss: cross-entropy of the three episodes +
    KL(original ‖ noisy) + KL(original ‖ smooth) of their predictions.

    Deviations from the authors' program:

    - The two features that attend to each other are an image's patch tokens as they enter the first block, as the paper
      has it; the program has the normalized pixels in their place (`attention="pixels"`).
    - The result is halved: where both are small and alike the formula doubles them, which a batch norm behind undoes in
      the authors' networks and nothing would in a transformer.
    - In convolved episodes it attends both before and after the ascent; here it does so once, like elsewhere.
    - The ascent is that of `cplsr.methods.ata`, with its deviations.
    - The classifier is a cosine with a temperature, as for all methods here; theirs are trained networks.
    - Adam at 5e-5 instead of 1e-3 (see `cplsr.methods.base.BACKBONE_SETTINGS`).
    """

    name: ClassVar[str] = "fap"

    attention: Literal["tokens", "pixels"] = "tokens"
    noise: Size = 1.0
    """Standard deviation of the noise."""

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """Three episodes, and the agreement of the copies with the original."""
        images = self.harden(embed, episode)
        rows = (
            embed(attend_to_first(images)) if self.attention == "pixels" else embed(images, entering([0], self._attend))
        )
        original, *copies = (prototype_logits(episode, part, self.temperature) for part in rows.chunk(3))
        loss, right = prototype_loss(episode, original)
        for logits in copies:
            loss = loss + prototype_loss(episode, logits)[0] + agreement(original, logits)
        return loss, right

    def harden(self, embed: Embed, episode: TrainingEpisode) -> Float[Tensor, "three_times_images 3 size size"]:
        """The original, the noisy and the smooth episode, one after the other, each made hard."""
        images = self.normalize(episode.images)
        batch = torch.cat([images, *without_detail(images, self.noise, episode.generator)])
        ascending = 3
        if self.convolves(episode.generator):
            batch = random_convolution(batch, self.sizes, episode.generator)
            ascending = 1
        episodes = list(batch.chunk(3))
        for number in range(ascending):
            episodes[number] = self.ascend(embed, episode, episodes[number])
        return torch.cat(episodes)

    def _attend(self, tokens: Tensor) -> Tensor:
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


METHOD = Method("fap", "Zhang et al., IJCAI 2024", FrequencyPrompts)
