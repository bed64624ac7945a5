"""Attention temperature (AttnTemp)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from cplsr.adapters.attention_temperature import AttentionTemperature, at_temperatures
from cplsr.backbones.backbone import Backbone
from cplsr.methods.base import Method, Share
from cplsr.methods.class_head import CLASS_LEVEL_SETTINGS, class_head, class_loss
from cplsr.training.objective import Embed, Loss, Objective, TrainingEpisode


@dataclass(eq=False)
class RandomTemperatures(Objective):
    """Classify base images while most blocks attend to all tokens alike, so that queries and keys learn little.

    Zou et al., "Attention Temperature Matters in ViT-Based Cross-Domain Few-Shot Learning", NeurIPS 2024. The logits of
    attention are multiplied by a temperature of each block: 0 with probability `chance`, else 1. Loss: cross-entropy
    over all base classes of a linear classifier on the class token. What is trained is carried by an adapter of kind
    `attention_temperature`, which is the method's other half: at test time, validation included, τ = 0.3 in the first
    two blocks, and no attention to the class token from block 5 on. In training that switch is off.

    Other than the authors':
    - temperatures are drawn for every step, as there are no epochs here; the released code draws them at the beginning
      of an epoch, of 300 steps on mini-ImageNet, and keeps them;
    - what `cplsr.methods.class_head` says of all such methods.
    """

    name: ClassVar[str] = "attn_temp"

    chance: Share = 0.8
    """Probability that a block's temperature is 0."""

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """How many temperatures there are, and the classifier."""
        self.layers, self.classifier = backbone.layers, class_head(backbone.embedding_dim, classes)

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """Class-level loss of the images seen at random temperatures."""
        temperatures = (torch.rand(self.layers, generator=episode.generator) >= self.chance).float().tolist()
        rows = embed(episode.images, None, lambda points: at_temperatures(points, temperatures))
        return class_loss(self.classifier, episode, rows)


METHOD = Method(
    "attn_temp",
    "Zou et al., NeurIPS 2024",
    RandomTemperatures,
    settings=CLASS_LEVEL_SETTINGS,
    carrier=AttentionTemperature.kind,
)
