"""Meta style adversarial training (StyleAdv)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from msgspec import Meta
from torch import Tensor
from torch.nn.functional import cross_entropy

from cplsr.backbones.backbone import Backbone, Between
from cplsr.declared import above
from cplsr.methods.base import (
    OBJECTIVE_RATE,
    TRANSFORMER_SETTINGS,
    Method,
    Share,
    agreement,
    prototype_logits,
    prototype_loss,
)
from cplsr.methods.class_head import class_head, image_classes
from cplsr.methods.style import Style, stages, style_of, with_style
from cplsr.settings.numbers import Temperature
from cplsr.training.objective import Embed, Loss, Objective, TrainingEpisode

SPREAD = 16 / 255
"""Standard deviation of the random step that comes before the gradient's (κ)."""


@dataclass(eq=False)
class StyleAdversary(Objective):
    """Styles made harder by one signed gradient step, and the network trained on both.

    Fu et al., "StyleAdv: Meta Style Adversarial Training for Cross-Domain Few-Shot Learning", CVPR 2023. At the stages
    1, 2, 3 in turn, each with the styles found for the earlier ones in place (progressive): μ' = μ + κn + ε sign(∂L/∂μ)
    and the same for σ, n normal and L the cross-entropy of a linear classifier over all base classes; ε is drawn from
    `strengths`. When the styles are put in, each stage is left out with probability `skip`. Loss: episode + adversarial
    episode + KL(clean ‖ adversarial) of their predictions + the global classifier's cross-entropy. The classifier has a
    rate of its own, 1e-3: one that has learned nothing attacks at random. The largest of the authors' `strengths`, 0.8,
    exceeds the styles themselves: it moves all images of a class alike, so that their episode becomes easier to tell
    whatever the classifier has learned. The next, 0.08, makes it harder; 0.008 is less than the random step.

    Deviations from the authors' program for transformers:

    - It reads the tokens as a map without transposing them, which mixes channels and places; here a style is that of a
      channel over the patch tokens between two stages of blocks, as the paper has it.
    - Its random step is the constant κ; here it is normal, as the paper has it.
    - Its optimizer is given the last tensor of the backbone only, by an oversight; here all are trained. Factor and
      offset of the cosines are left out of it, too, so that they stay 10 and 0: here they are constants.
    - With half precision on one GPU it divides the backbone's rate by eight; here it is the 5e-5 of the paper.
    - A deviation over places is that of the population, theirs that of a sample: one place has a style, too.
    - The rates of the cosine schedule end at 0, there at 1e-6. Rates and optimizer are for the whole backbone only.
    - The authors' further training on augmented support sets of the target is not here.
    """

    name: ClassVar[str] = "styleadv"

    strengths: Annotated[tuple[Annotated[float, above(0, 1_000_000)], ...], Meta(min_length=1)] = (0.8, 0.08, 0.008)
    skip: Share = 0.4
    temperature: Temperature = 10.0

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """Where styles are changed, and the global classifier, from uniform weights as torch's own."""
        self.layers, self.prefix = stages(backbone.layers), -backbone.patches
        self.classifier = class_head(backbone.embedding_dim, classes, bias=True)

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """Clean and adversarial episode, their agreement, and the global classifier."""
        labels = image_classes(episode)
        styles = self.attack(embed, episode, labels)
        skipped = torch.rand(len(styles), generator=episode.generator) < self.skip
        styles = {layer: style for (layer, style), out in zip(styles.items(), skipped, strict=True) if not out}
        clean = embed(episode.images)
        logits = prototype_logits(episode, clean, self.temperature)
        loss, right = prototype_loss(episode, logits)
        loss = loss + cross_entropy(self.classifier(clean), labels.to(clean.device))
        hard = prototype_logits(episode, embed(episode.images, self._styled(styles)), self.temperature)
        return loss + prototype_loss(episode, hard)[0] + agreement(logits, hard), right

    def attack(self, embed: Embed, episode: TrainingEpisode, labels: Tensor) -> dict[int, Style]:
        """Adversarial styles of all stages, by the block they enter."""
        styles: dict[int, Style] = {}
        for layer in self.layers:
            strength = self.strengths[int(torch.randint(len(self.strengths), (1,), generator=episode.generator))]
            found = self._gradients(embed, episode, labels, layer, styles)
            noise = (torch.randn(part.shape, generator=episode.generator).to(part) for part, _ in found)
            mean, deviation = (
                part.detach() + SPREAD * step + strength * gradient.sign()
                for (part, gradient), step in zip(found, noise, strict=True)
            )
            styles[layer] = mean, deviation
        return styles

    def _gradients(
        self, embed: Embed, episode: TrainingEpisode, labels: Tensor, layer: int, earlier: dict[int, Style]
    ) -> list[tuple[Tensor, Tensor]]:
        """Both parts of a stage's style, each with the gradient of the global classifier's loss."""
        own: list[Tensor] = []
        styled = self._styled(earlier)

        def between(number: int, tokens: Tensor) -> Tensor:
            if number != layer:
                return styled(number, tokens)
            mean, deviation = (part.requires_grad_() for part in style_of(tokens.detach(), self.prefix))
            own.extend([mean, deviation])
            return with_style(tokens.detach(), self.prefix, (mean, deviation))

        with torch.enable_grad():
            rows = self.classifier(embed(episode.images, between))
            gradients = torch.autograd.grad(cross_entropy(rows, labels.to(rows.device)), own)
        return list(zip(own, gradients, strict=True))

    def _styled(self, styles: dict[int, Style]) -> Between:
        return lambda layer, tokens: with_style(tokens, self.prefix, styles[layer]) if layer in styles else tokens


METHOD = Method(
    "styleadv",
    "Fu et al., CVPR 2023",
    StyleAdversary,
    settings=TRANSFORMER_SETTINGS | {"objective_lr": OBJECTIVE_RATE, "warmup": 0.25},  # of 20 epochs 5
)
