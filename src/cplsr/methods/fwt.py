"""Feature-wise transformation (FWT)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from cplsr.backbones.backbone import Backbone
from cplsr.methods.base import Method, Size, Temperature, prototype_logits, prototype_loss
from cplsr.methods.style import Tokens, stages
from cplsr.training.objective import Embed, Loss, Objective, TrainingEpisode


@dataclass(eq=False)
class FeatureWiseTransformation(Objective):
    """Random scale and shift of every channel between stages, in training only.

    Tseng et al., "Cross-Domain Few-Shot Classification via Learned Feature-Wise Transformation", ICLR 2020, with its
    fixed hyper-parameters: γ ~ N(1, softplus(θ_γ)), β ~ N(0, softplus(θ_β)), z' = γ z + β, one draw per channel and
    forward pass.

    Ported: the feature maps after a residual stage become all tokens, the class token too, between two stages of
    blocks. θ is not learned here: the paper learns it from several base domains, and there is one.
    """

    name: ClassVar[str] = "fwt"

    scale: float = 0.3
    """θ_γ, before softplus."""
    shift: float = 0.5
    """θ_β, before softplus."""
    strength: Size = 1.0
    """Factor of both deviations; 1 is the paper's, made for networks that are trained with it from the beginning."""
    temperature: Temperature = 20.0

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """Between which blocks it acts, and how much."""
        self.layers = stages(backbone.layers)
        self.scale_deviation, self.shift_deviation = (
            self.strength * math.log1p(math.exp(theta)) for theta in (self.scale, self.shift)
        )

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """Prototype loss of the transformed episode."""

        def between(layer: int, tokens: Tensor) -> Tensor:
            if layer not in self.layers:
                return tokens
            return transform(tokens, self.scale_deviation, self.shift_deviation, episode.generator)

        return prototype_loss(episode, prototype_logits(episode, embed(episode.images, between), self.temperature))


Deviation = float | Float[Tensor, "dim"]
"""Of all channels alike, or of each."""


def transform(tokens: Tokens, scale: Deviation, shift: Deviation, generator: torch.Generator) -> Tokens:
    """γ z + β with one γ ~ N(1, `scale`) and one β ~ N(0, `shift`) per channel."""
    noise = torch.randn(2, tokens.shape[-1], generator=generator).to(tokens)
    return (1 + scale * noise[0]) * tokens + shift * noise[1]


METHOD = Method("fwt", "Tseng et al., ICLR 2020", FeatureWiseTransformation)
