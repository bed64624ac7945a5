"""Meta style adversarial training (StyleAdv)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from msgspec import Meta
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import skip_init

from cplsr.backbones.backbone import Backbone, Between
from cplsr.declared import above
from cplsr.methods.base import Method, Share, Temperature, agreement, prototype_logits, prototype_loss
from cplsr.methods.style import Style, stages, style_of, with_style
from cplsr.training.objective import Embed, Loss, Objective, TrainingEpisode

SPREAD = 16 / 255
"""Standard deviation of the random step that comes before the gradient's (κ)."""

START = 0.01
"""Standard deviation of the global classifier's weights at the start."""


@dataclass(eq=False)
class StyleAdversary(Objective):
    """Styles made harder by one signed gradient step, and the network trained on both.

    Fu et al., "StyleAdv: Meta Style Adversarial Training for Cross-Domain Few-Shot Learning", CVPR 2023. At the stages
    1, 2, 3 in turn, each with the styles found for the earlier ones in place (progressive): μ' = μ + κn + ε sign(∂L/∂μ)
    and the same for σ, n normal and L the cross-entropy of a linear classifier over all base classes; ε is drawn from
    `strengths`, and a stage is left out with probability `skip`. Loss: episode + adversarial episode + KL(clean ‖
    adversarial) of their predictions + the global classifier's cross-entropy.

    Ported: a feature map's style becomes that of the patch tokens between two stages of blocks, channel by channel as
    the paper has it (the released code for transformers reads the tokens as a map without transposing them, which mixes
    channels and places). That code finds all styles and skips when it applies them; here a stage that is skipped is not
    attacked at all, so that later stages are attacked with exactly what they will meet.
    """

    name: ClassVar[str] = "styleadv"

    strengths: Annotated[tuple[Annotated[float, above(0, 1_000_000)], ...], Meta(min_length=1)] = (0.8, 0.08, 0.008)
    skip: Share = 0.4
    temperature: Temperature = 20.0

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """Where styles are changed, and the global classifier: small weights, as with none a style has no gradient."""
        self.layers, self.prefix = stages(backbone.layers), -backbone.patches
        self.classifier = skip_init(nn.Linear, backbone.embedding_dim, classes)
        nn.init.zeros_(self.classifier.bias)
        nn.init.normal_(self.classifier.weight, std=START, generator=torch.Generator().manual_seed(0))

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """Clean and adversarial episode, their agreement, and the global classifier."""
        labels = episode.classes.repeat_interleave(episode.pixels.shape[1])
        styles = self.attack(embed, episode, labels)
        clean = embed(episode.images)
        logits = prototype_logits(episode, clean, self.temperature)
        loss, right = prototype_loss(episode, logits)
        loss = loss + cross_entropy(self.classifier(clean), labels.to(clean.device))
        if styles:
            hard = prototype_logits(episode, embed(episode.images, self._styled(styles)), self.temperature)
            loss = loss + prototype_loss(episode, hard)[0] + agreement(logits, hard)
        return loss, right

    def attack(self, embed: Embed, episode: TrainingEpisode, labels: Tensor) -> dict[int, Style]:
        """Adversarial styles by the block they enter; the stages left out are missing."""
        styles: dict[int, Style] = {}
        for layer in self.layers:
            draw = torch.rand(2, generator=episode.generator)
            if draw[0].item() < self.skip:
                continue
            strength = self.strengths[int(draw[1].item() * len(self.strengths))]
            start, gradients = self._gradients(embed, episode, labels, layer, styles)
            mean, deviation = (
                (part + strength * gradient.sign()).detach() for part, gradient in zip(start, gradients, strict=True)
            )
            styles[layer] = mean, deviation
        return styles

    def _gradients(
        self, embed: Embed, episode: TrainingEpisode, labels: Tensor, layer: int, earlier: dict[int, Style]
    ) -> tuple[list[Tensor], tuple[Tensor, ...]]:
        """A stage's style after a random step, and the gradients of the global classifier's loss there."""
        start: list[Tensor] = []
        styled = self._styled(earlier)

        def between(number: int, tokens: Tensor) -> Tensor:
            if number != layer:
                return styled(number, tokens)
            for part in style_of(tokens.detach(), self.prefix):
                noise = torch.randn(part.shape, generator=episode.generator).to(part)
                start.append((part + SPREAD * noise).requires_grad_())
            return with_style(tokens.detach(), self.prefix, (start[0], start[1]))

        with torch.enable_grad():
            rows = self.classifier(embed(episode.images, between))
            return start, torch.autograd.grad(cross_entropy(rows, labels.to(rows.device)), start)

    def _styled(self, styles: dict[int, Style]) -> Between:
        def between(layer: int, tokens: Tensor) -> Tensor:
            return with_style(tokens, self.prefix, styles[layer]) if layer in styles else tokens

        return between


METHOD = Method("styleadv", "Fu et al., CVPR 2023", StyleAdversary)
