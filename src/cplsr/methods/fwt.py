"""Feature-wise transformation (FWT)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from cplsr.backbones.backbone import Backbone
from cplsr.methods.base import Method, Size, prototype_logits, prototype_loss
from cplsr.methods.style import Tokens, entering, stages, style_of
from cplsr.settings.numbers import Temperature
from cplsr.training.objective import Embed, Loss, Objective, TrainingEpisode

SHARPNESS = 100
"""β of the softplus, log(1 + exp(β θ)) / β: so sharp that a positive θ is its own deviation."""


@dataclass(eq=False)
class FeatureWiseTransformation(Objective):
    """Random scale and shift of every channel between stages, in training only.

    Tseng et al., "Cross-Domain Few-Shot Classification via Learned Feature-Wise Transformation", ICLR 2020, with its
    fixed hyper-parameters: γ ~ N(1, softplus(θ_γ)), β ~ N(0, softplus(θ_β)), z' = γ z + β for a batch-normalized z, one
    draw per channel and forward pass.

    Deviations from the authors' program:

    - Its four places are the ends of the residual stages; here they are the tokens, the class token too, that enter the
      blocks behind the first, second and third quarter, and the last block, see `stages`.
    - There z comes from a batch norm, in the residual branch and again in the shortcut. A transformer has none, and its
      channels differ widely in size: here a channel is normalized by its mean and deviation over all tokens of the
      episode, changed, and mapped back (`transform`). A layer norm would not do, it leaves channels as unequal as they
      are. It happens once per stage, to the sum of both branches.
    - θ is not learned: the paper learns it from several base domains, and there is one.
    - The classifier is a cosine with a temperature, as for all methods here; theirs are trained networks.
    - Adam at 5e-5 instead of 1e-3, which is for networks that are trained from the beginning (see
      `cplsr.methods.base.BACKBONE_SETTINGS`).
    """

    name: ClassVar[str] = "fwt"

    scale: float = 0.3
    """θ_γ, before softplus."""
    shift: float = 0.5
    """θ_β, before softplus."""
    strength: Size = 1.0
    """Factor of both deviations; 1 is the paper's."""
    temperature: Temperature = 20.0

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """Between which blocks it acts, and how much."""
        self.layers = stages(backbone.layers, fourth=True)
        scale, shift = (self.strength * deviation(torch.tensor(theta)).item() for theta in (self.scale, self.shift))
        self.deviations = scale, shift

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """Prototype loss of the transformed episode."""
        between = entering(self.layers, lambda tokens: transform(tokens, self.deviations, episode.generator))
        return prototype_loss(episode, prototype_logits(episode, embed(episode.images, between), self.temperature))


Deviation = float | Float[Tensor, "dim"]
"""Of all channels alike, or of each."""


def deviation(theta: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Softplus of θ: the standard deviation that θ stands for."""
    return softplus(theta, beta=SHARPNESS)


def transform(tokens: Tokens, deviations: tuple[Deviation, Deviation], generator: torch.Generator) -> Tokens:
    """m + γ (z − m) + β s with one γ ~ N(1, first deviation) and one β ~ N(0, second deviation) per channel.

    m and s are the channel's mean and deviation over all tokens of all images: it is γ z + β of batch-normalized tokens
    (without weights), with the normalization undone.
    """
    noise = torch.randn(2, tokens.shape[-1], generator=generator).to(tokens)
    (scale, shift), (mean, spread) = deviations, style_of(tokens.flatten(0, 1)[None], 0)
    return tokens + scale * noise[0] * (tokens - mean) + shift * noise[1] * spread


METHOD = Method("fwt", "Tseng et al., ICLR 2020", FeatureWiseTransformation)
