"""Random registers and attention perturbation (REAP)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import normalize, unfold

from cplsr.backbones.backbone import Backbone
from cplsr.methods.base import Method, Share, Size, Times
from cplsr.methods.class_head import CLASS_LEVEL_SETTINGS, class_head, class_loss
from cplsr.methods.style import Tokens, entering
from cplsr.training.objective import Embed, Loss, Objective, TrainingEpisode

PACE = 1e-3
"""Rate of τ as a share of the classifier's."""


@dataclass(eq=False)
class RandomRegisters(Objective):
    """Classify base images of which large parts that look alike are noise, among more tokens of noise.

    Yi et al., "Random Registers for Cross-Domain Few-Shot Learning", ICML 2025. A random share `anchors` of an image's
    patches are anchors; patches whose pixels have a cosine above `similarity` with an anchor's, each patch first freed
    of its mean, are replaced by N(0, τ²) where they enter the first block, positions and all. So that all images of a
    batch keep equally many, images with fewer patches left get some of the others back at random. `registers` more
    tokens of N(0, τ²) stand beside them. τ is learned. Loss: cross-entropy over all base classes of a linear classifier
    on the class token. At test time there is no noise and no register.

    Other than the authors':
    - τ is its start value + PACE · θ with a learned θ, which gives it the rate of the released code, the backbone's,
      at the rate of the objective; weight decay so pulls it to its start value;
    - registers stand before the patches, not behind them, as the backbone expects; without rotary positions attention
      does not depend on the order;
    - a patch of one color has no direction: its cosines are 0 here, so it is never replaced; the released code comes to
      the same end by comparing with 0/0;
    - what `cplsr.methods.class_head` says of all such methods.
    """

    name: ClassVar[str] = "reap"

    anchors: Share = 0.7
    similarity: float = 0.3
    registers: Times = 16
    deviation: Size = 0.1
    """τ at the start."""

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """How to find the patches of an image, τ and the classifier."""
        self.normalized, self.patch = backbone.normalize, backbone.patch_size
        self.change = nn.Parameter(torch.zeros(()))
        self.classifier = class_head(backbone.embedding_dim, classes, bias=True)
        nn.init.zeros_(self.classifier.bias)

    @property
    def spread(self) -> Float[Tensor, ""]:
        """τ as it is now."""
        return (self.deviation + PACE * self.change).abs()

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """Class-level loss of the perturbed images."""
        alike = patch_cosines(self.normalized(episode.images), self.patch) > self.similarity
        kept = kept_patches(alike, self.anchors, episode.generator)
        between = entering([0], lambda tokens: perturb(tokens, kept, self.registers, self.spread, episode.generator))
        return class_loss(self.classifier, episode, embed(episode.images, between))


def patch_cosines(images: Float[Tensor, "batch 3 height width"], size: int) -> Float[Tensor, "batch patches patches"]:
    """Cosines between the pixels of any two patches of an image, each freed of its mean; 0 for patches of one color."""
    patches = unfold(images, size, stride=size).transpose(1, 2)
    units = normalize(patches - patches.mean(dim=-1, keepdim=True), dim=-1)
    return units @ units.transpose(1, 2)


def kept_patches(
    alike: Bool[Tensor, "batch patches patches"], anchors: float, generator: torch.Generator
) -> Bool[Tensor, "batch patches"]:
    """Which patches stay: those unlike all anchors, and at random as many more as make all images keep equally many."""
    batch, patches, _ = alike.shape
    draws = torch.rand(2, batch, patches, generator=generator).to(alike.device)
    rank = draws[0].argsort(dim=1).argsort(dim=1)
    is_anchor = rank >= int(patches * (1 - anchors))
    unlike = ~(alike & is_anchor.unsqueeze(2)).any(dim=1)
    order = torch.where(unlike, -1.0, draws[1]).argsort(dim=1).argsort(dim=1)
    return order < unlike.sum(dim=1).max()


def perturb(
    tokens: Tokens,
    kept: Bool[Tensor, "batch patches"],
    registers: int,
    spread: Float[Tensor, ""],
    generator: torch.Generator,
) -> Float[Tensor, "batch more_tokens dim"]:
    """Noise instead of the patches that are not kept, and registers of noise before them all."""
    batch, patches = kept.shape
    noise = spread * torch.randn(batch, registers + patches, tokens.shape[-1], generator=generator).to(tokens)
    changed = torch.where(kept.unsqueeze(-1), tokens[:, -patches:], noise[:, registers:].to(tokens.dtype))
    return torch.cat([tokens[:, :-patches], noise[:, :registers].to(tokens.dtype), changed], dim=1)


METHOD = Method("reap", "Yi et al., ICML 2025", RandomRegisters, settings={**CLASS_LEVEL_SETTINGS, "lr": 1e-6})
