"""Wavelet-based style augmentation (Wave-SAN)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError
from cplsr.methods.base import Method, Share, agreement, prototype_logits, prototype_loss
from cplsr.methods.style import Tokens, entering, stages, style_of, with_style
from cplsr.methods.wavelets import haar2d, inverse_haar2d, pad_to_even
from cplsr.settings.numbers import Temperature
from cplsr.training.objective import Embed, Loss, Objective, TrainingEpisode


@dataclass(eq=False)
class WaveletStyles(Objective):
    """Two episodes that swap the styles of their low frequencies, and the network trained on both versions.

    Fu et al., "Wave-SAN: Wavelet based Style Augmentation Network for Cross-Domain Few-Shot Learning", arXiv 2022.
    After stages 1, 2 and 3 the feature map of every image is cut into Haar bands, its low band takes the style (mean
    and standard deviation of every channel) of the low band of the other episode's image at the same place and gives
    its own away, and the map is put together again with its own high bands. Loss, averaged over the two episodes:
    (1 − `share`) · clean episode + `share` · swapped episode + `consistency` of their predictions. A style that is
    taken is a constant: no gradient goes back to the image that gives it.

    Deviations from the authors' program:

    - The feature map becomes the grid of patch tokens between two stages of blocks; class, register and prompt tokens
      stay.
    - A grid with an odd side (7 x 7 at 112 pixels with patches of 16) is transformed with its last row and column
      repeated, which are cut off again; there zeros are added, which would darken the low band's edge.
    - A deviation over places is that of the population, theirs that of a sample: one place has a style, too.
    - The classifier is a cosine with a temperature, as for all methods here; theirs is a graph network.
    - Adam at 5e-5 instead of 1e-3 (see `cplsr.methods.base.BACKBONE_SETTINGS`).

    A step sees two episodes, so twice the images of other methods.
    """

    name: ClassVar[str] = "wave_san"
    partner: ClassVar[bool] = True

    share: Share = 0.8
    temperature: Temperature = 20.0

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """Between which blocks it acts, and on how many tokens."""
        self.layers, self.patches = stages(backbone.layers), backbone.patches

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """Both episodes, clean and swapped, and the agreement of the two."""
        if partner is None:
            raise InputError("styles are swapped between two episodes, and only one was given: give a partner")
        pair = (episode, partner)
        images = torch.cat([each.images for each in pair])
        between = entering(self.layers, lambda tokens: swap_styles(tokens, self.patches))
        losses, accuracies = [], []
        for each, clean, swapped in zip(pair, embed(images).chunk(2), embed(images, between).chunk(2), strict=True):
            logits, changed = (prototype_logits(each, rows, self.temperature) for rows in (clean, swapped))
            loss, right = prototype_loss(each, logits)
            hard, _ = prototype_loss(each, changed)
            losses.append((1 - self.share) * loss + self.share * hard + consistency(logits, changed))
            accuracies.append(right)
        return torch.stack(losses).mean(), torch.stack(accuracies).mean()


def consistency(clean: Float[Tensor, "queries way"], changed: Float[Tensor, "queries way"]) -> Float[Tensor, ""]:
    """½ KL(clean ‖ middle) + ½ KL(changed ‖ middle) of two predictions and that of their averaged logits."""
    middle = (clean + changed) / 2
    return (agreement(clean, middle) + agreement(changed, middle)) / 2


def swap_styles(tokens: Tokens, patches: int) -> Tokens:
    """Each image's low band with the style of its opposite's: the first with that of the first in the second half."""
    side = math.isqrt(patches)
    grids = tokens[:, -patches:].transpose(1, 2).unflatten(2, (side, side))
    low, high = haar2d(pad_to_even(grids))
    rows = low.flatten(2).transpose(1, 2)  # (batch, quarter of the patches, dim)
    mean, deviation = (part.detach().roll(len(tokens) // 2, dims=0) for part in style_of(rows, 0))
    styled = with_style(rows, 0, (mean, deviation)).transpose(1, 2).view_as(low)
    changed = inverse_haar2d(styled, high)[..., :side, :side]
    return torch.cat([tokens[:, :-patches], changed.flatten(2).transpose(1, 2)], dim=1)


METHOD = Method("wave_san", "Fu et al., arXiv 2022", WaveletStyles)
