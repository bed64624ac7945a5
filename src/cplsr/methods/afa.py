"""Adversarial feature augmentation (AFA)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, layer_norm, softplus

from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError
from cplsr.methods.base import Method, prototype_logits, prototype_loss
from cplsr.methods.fwt import transform
from cplsr.methods.style import Tokens, stages
from cplsr.training.objective import Embed, Loss, Objective, TrainingEpisode

HIDDEN = 100
"""Width of the discriminator's hidden layer."""


class AdversarialAugmentation(Objective):
    """A second branch whose features are moved away from the first, and an encoder that brings them together again.

    Hu & Ma, "Adversarial Feature Augmentation for Cross-domain Few-shot Classification", ECCV 2022. In the branch
    z' = γ z + β with γ ~ N(1, softplus(θ_γ)) and β ~ N(0, softplus(θ_β)), one draw per channel and episode; θ_γ and θ_β
    start at `scale` and `shift` and are learned. The distance of the branches is told by a discriminator of original
    and augmented embeddings (behind a gradient reversal) and by the difference of their Gram matrices. The encoder is
    trained to make it small, the noise to make it large, and the classification hard: its gradient is reversed.
    Loss: episode + augmented episode + `domain` · discriminator + `gram` · Gram difference.

    Ported: the feature maps after a residual stage become all tokens between two stages of blocks; the branches part
    at the first. Gram matrices are of the patch tokens behind a layer norm without weights: the authors' features come
    from a batch norm, while the raw tokens of a transformer have channels of very unequal size. Known differences from
    the authors' program: it classifies the augmented episode only, takes the root of the Gram difference, and lets the
    two weights rise during training (their final value is 0.46); here they are constant.
    """

    name: ClassVar[str] = "afa"

    def __init__(
        self,
        *,
        scale: float = 0.3,
        shift: float = 0.5,
        domain: float = 1.0,
        gram: float = 1.0,
        temperature: float = 20.0,
    ) -> None:
        super().__init__()
        self.options = {"scale": scale, "shift": shift, "domain": domain, "gram": gram, "temperature": temperature}
        self.start = (scale, shift)
        self.domain, self.gram, self.temperature = domain, gram, temperature

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """The noise of every stage, and the discriminator."""
        self.layers, self.prefix = stages(backbone.layers), backbone.prefix
        if not self.layers:
            raise InputError(f"afa acts between blocks, and {backbone.source!r} has only one: give a deeper backbone")
        shape = (len(self.layers), backbone.dim)
        self.scale, self.shift = (nn.Parameter(torch.full(shape, value)) for value in self.start)
        self.discriminator = discriminator(backbone.embedding_dim, torch.Generator().manual_seed(0))

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """Both episodes, the discriminator, and the Gram difference averaged over the stages."""
        differences: list[Tensor] = []

        def between(layer: int, tokens: Tensor) -> Tensor:
            if layer not in self.layers:
                return tokens
            stage = self.layers.index(layer)
            original, changed = (tokens, tokens) if stage == 0 else tokens.chunk(2)
            changed = augment(changed, self.scale[stage], self.shift[stage], episode.generator)
            differences.append(gram_difference(*(self._normed_patches(part) for part in (original, changed))))
            return torch.cat([original, changed])

        original, changed = embed(episode.images, between).chunk(2)
        loss, right = prototype_loss(episode, prototype_logits(episode, original, self.temperature))
        augmented, _ = prototype_loss(episode, prototype_logits(episode, changed, self.temperature))
        told_apart = domain_loss(self.discriminator, original, changed)
        return loss + augmented + self.domain * told_apart + self.gram * torch.stack(differences).mean(), right

    def _normed_patches(self, tokens: Tensor) -> Tensor:
        return layer_norm(tokens[:, self.prefix :], tokens.shape[-1:])


def augment(
    tokens: Tokens, scale: Float[Tensor, "dim"], shift: Float[Tensor, "dim"], generator: torch.Generator
) -> Tokens:
    """γ z + β with γ ~ N(1, softplus(scale)) and β ~ N(0, softplus(shift)), which learn the opposite of the rest.

    A reversal before the noise and another behind it, as published, is one at its parameters: the tokens' gradient is
    turned twice, that of the parameters once.
    """
    scale, shift = (softplus(reverse_gradient(part)) for part in (scale, shift))
    return transform(tokens, scale, shift, generator)


def discriminator(dim: int, generator: torch.Generator) -> nn.Sequential:
    """One hidden layer; above zero it takes an embedding for an augmented one."""
    layers = [nn.utils.skip_init(nn.Linear, *size) for size in ((dim, HIDDEN), (HIDDEN, 1))]
    for layer in layers:
        nn.init.xavier_normal_(layer.weight, generator=generator)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.ReLU(), layers[1])


def domain_loss(
    judge: nn.Module, original: Float[Tensor, "images dim"], changed: Float[Tensor, "images dim"]
) -> Float[Tensor, ""]:
    """Cross-entropy of the discriminator; what made the embeddings is trained to raise it."""
    guesses = judge(reverse_gradient(torch.cat([original, changed]))).squeeze(1)
    truth = torch.cat([torch.zeros(len(original)), torch.ones(len(changed))]).to(guesses)
    return binary_cross_entropy_with_logits(guesses, truth)


class _Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -gradient


def reverse_gradient(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """`x` itself; its gradient changes its sign (Ganin & Lempitsky, ICML 2015).

    Whatever minimizes a loss behind it is trained against whatever produced `x`: both with one backward pass.
    """
    return _Reversal.apply(x)


def gram(features: Float[Tensor, "batch positions channels"]) -> Float[Tensor, "batch channels channels"]:
    """FᵀF, averaged over the positions."""
    return features.transpose(1, 2) @ features / features.shape[1]


def gram_difference(
    first: Float[Tensor, "batch positions channels"], second: Float[Tensor, "batch positions channels"]
) -> Float[Tensor, ""]:
    """¼ of the mean squared difference of two images' Gram matrices, averaged over the batch.

    That is Σ(G − G')² / (4 N² M²) for N channels and M positions with sums as entries (Gatys et al., CVPR 2016).
    """
    return (gram(first) - gram(second)).square().mean() / 4


METHOD = Method("afa", "Hu & Ma, ECCV 2022", AdversarialAugmentation)
