"""Feature-wise transformation (FWT)."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError
from cplsr.methods.base import BACKBONE_SETTINGS, Method, prototype_logits, prototype_loss
from cplsr.methods.style import stages
from cplsr.training.objective import Embed, Objective, TrainingEpisode


class FeatureWiseTransformation(Objective):
    """Random scale and shift of every channel between stages, in training only.

    Tseng et al., "Cross-Domain Few-Shot Classification via Learned Feature-Wise Transformation", ICLR 2020, with its
    fixed hyper-parameters: γ ~ N(1, softplus(θ_γ)), β ~ N(0, softplus(θ_β)), z' = γ z + β, one draw per channel and
    forward pass.

    Attributes:
        scale, shift: Θ_γ and θ_β before softplus. strength: factor of both deviations; 1 is the paper's, made for
            networks that are trained with it from the beginning.

    Ported: the feature maps after a residual stage become all tokens, the class token too, between two stages of
    blocks. θ is not learned here: the paper learns it from several base domains, and there is one.
    """

    name: ClassVar[str] = "fwt"

    def __init__(
        self, *, scale: float = 0.3, shift: float = 0.5, strength: float = 1.0, temperature: float = 20.0
    ) -> None:
        super().__init__()
        if strength < 0:
            raise InputError(f"the option strength of 'fwt' is {strength}: give a number that is not negative")
        self.options = {"scale": scale, "shift": shift, "strength": strength, "temperature": temperature}
        self.scale_deviation, self.shift_deviation = (strength * math.log1p(math.exp(x)) for x in (scale, shift))
        self.temperature = temperature
        self.layers: tuple[int, ...] = ()

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """Between which blocks it acts."""
        self.layers = stages(backbone.layers)

    def loss(
        self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None
    ) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """Prototype loss of the transformed episode."""

        def between(layer: int, tokens: Tensor) -> Tensor:
            if layer not in self.layers:
                return tokens
            return transform(tokens, self.scale_deviation, self.shift_deviation, episode.generator)

        return prototype_loss(episode, prototype_logits(episode, embed(episode.images, between), self.temperature))


def transform(
    tokens: Float[Tensor, "batch tokens dim"],
    scale_deviation: float,
    shift_deviation: float,
    generator: torch.Generator,
) -> Float[Tensor, "batch tokens dim"]:
    """γ z + β with one γ and one β per channel."""
    noise = torch.randn(2, tokens.shape[-1], generator=generator).to(tokens)
    return (1 + scale_deviation * noise[0]) * tokens + shift_deviation * noise[1]


METHOD = Method(
    name="fwt",
    reference="Tseng et al., ICLR 2020",
    trains="backbone",
    sees="base images and labels",
    settings=BACKBONE_SETTINGS,
    objective=FeatureWiseTransformation,
)
