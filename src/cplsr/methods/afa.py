"""Adversarial feature augmentation (AFA)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, layer_norm

from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError
from cplsr.methods.base import BACKBONE_SETTINGS, OBJECTIVE_RATE, Method, Size, prototype_logits, prototype_loss
from cplsr.methods.class_head import class_head
from cplsr.methods.fwt import deviation, transform
from cplsr.methods.style import stages
from cplsr.settings.numbers import Temperature
from cplsr.training.objective import Embed, Loss, Objective, TrainingEpisode

HIDDEN = 100
"""Width of the discriminator's hidden layer."""


class AdversarialAugmentation(Objective):
    """A second branch whose features are moved away from the first, and an encoder that brings them together again.

    Hu & Ma, "Adversarial Feature Augmentation for Cross-domain Few-shot Classification", ECCV 2022. In the branch
    z' = γ z + β with γ ~ N(1, softplus(θ_γ)) and β ~ N(0, softplus(θ_β)), one draw per channel and episode; θ_γ and θ_β
    start at `scale` and `shift`. The distance of the branches is told by a discriminator of original and augmented
    embeddings (behind a gradient reversal) and by the difference of their Gram matrices; both act on the encoder with
    a weight λ that rises from 0 to 0.46 over the run (`ramp`). Loss: augmented episode + `domain` · discriminator +
    `gram` · λ · Gram difference. When and in which direction θ is learned: `against`.

    As in the authors' program, where it differs from the paper: the augmented episode alone is classified; the
    discriminator's softmax stands before a cross-entropy with a softmax of its own, so that its loss stays between 0.31
    and 1.31; the Gram difference is a root (`gram_difference`), which makes it tiny; θ has phases.

    Deviations from the authors' program:

    - Place and normalization of the noise are those of `cplsr.methods.fwt`. The branches part at the first place.
    - Gram matrices are of the patch tokens behind a layer norm without weights: raw tokens of a transformer have
      channels of very unequal size, the authors' features come from a batch norm.
    - λ rises with every episode, there once in a hundred.
    - One optimizer step per episode: there two Adam optimizers share the encoder and take the same gradient, which
      makes two.
    - The classifier is a cosine with a temperature, as for all methods here; theirs are trained networks.
    - Adam at 5e-5 for the backbone instead of 1e-3 (see `cplsr.methods.base.BACKBONE_SETTINGS`); discriminator and θ,
      which are new, learn at the authors' 1e-3.
    """

    name: ClassVar[str] = "afa"
    asked: Tensor

    def __init__(
        self,
        *,
        scale: float = 0.3,
        shift: float = 0.5,
        domain: Size = 1.0,
        gram: Size = 1.0,
        temperature: Temperature = 20.0,
    ) -> None:
        super().__init__()
        self.options = {"scale": scale, "shift": shift, "domain": domain, "gram": gram, "temperature": temperature}
        self.start = (scale, shift)
        self.domain, self.gram, self.temperature = domain, gram, temperature

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """The noise of every stage, and the discriminator."""
        self.layers, self.patches = stages(backbone.layers, fourth=True), backbone.patches
        if not self.layers:
            raise InputError(f"afa acts between blocks, and {backbone.source!r} has only one: give a deeper backbone")
        shape = (len(self.layers), backbone.dim)
        self.scale, self.shift = (nn.Parameter(torch.full(shape, value)) for value in self.start)
        self.discriminator = discriminator(backbone.embedding_dim, torch.Generator().manual_seed(0))
        # How many losses came before: a buffer, so that a resumed run counts on from where it was.
        self.register_buffer("asked", torch.zeros((), dtype=torch.int64))

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """The augmented episode, the discriminator, and the Gram difference averaged over the stages."""
        differences: list[Tensor] = []
        progress = self.asked.item() / self.length
        self.asked += 1
        factor, weight = against(progress), ramp(progress)

        def between(layer: int, tokens: Tensor) -> Tensor:
            if layer not in self.layers:
                return tokens
            stage = self.layers.index(layer)
            original, changed = (tokens, tokens) if stage == 0 else tokens.chunk(2)
            scale, shift = (deviation(reverse_gradient(theta[stage], factor)) for theta in (self.scale, self.shift))
            changed = transform(changed, (scale, shift), episode.generator)
            differences.append(gram_difference(*(self._normed_patches(part) for part in (original, changed))))
            return torch.cat([original, changed])

        original, changed = embed(episode.images, between).chunk(2)
        loss, right = prototype_loss(episode, prototype_logits(episode, changed, self.temperature))
        told_apart = domain_loss(self.discriminator, original, changed, weight)
        return loss + self.domain * told_apart + self.gram * weight * torch.stack(differences).mean(), right

    def _normed_patches(self, tokens: Tensor) -> Tensor:
        return layer_norm(tokens[:, -self.patches :], tokens.shape[-1:])


def ramp(progress: float) -> float:
    """λ = 2 / (1 + exp(−t)) − 1 for a share t of the run: from 0 to 0.46."""
    return 2 / (1 + math.exp(-progress)) - 1


def against(progress: float) -> float:
    """How much the noise learns the opposite of the rest, by the authors' 150th and 250th epoch of 400.

    It keeps still first, then learns what the rest learns, and becomes the adversary at last.
    """
    return 0.0 if progress < 150 / 400 else -1.0 if progress < 250 / 400 else 1.0


def discriminator(dim: int, generator: torch.Generator) -> nn.Sequential:
    """One hidden layer with a batch norm; scores of "original" and "augmented", from uniform weights as torch's own."""
    first, last = (class_head(*size, bias=True, generator=generator) for size in ((dim, HIDDEN), (HIDDEN, 2)))
    return nn.Sequential(first, nn.BatchNorm1d(HIDDEN, track_running_stats=False), nn.ReLU(), last)


def domain_loss(
    judge: nn.Module, original: Float[Tensor, "images dim"], changed: Float[Tensor, "images dim"], weight: float
) -> Float[Tensor, ""]:
    """Cross-entropy of the discriminator's softmax, taken for logits; the encoder is to raise `weight` of it.

    Of two shares that sum to one the loss is at least log(1 + 1/e) and at most log(1 + e): no encoder can run away.
    """
    shares = judge(reverse_gradient(torch.cat([original, changed]), weight)).softmax(dim=1)
    truth = torch.arange(2, device=shares.device).repeat_interleave(len(original))
    return cross_entropy(shares, truth)


class _Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return -ctx.factor * gradient, None


def reverse_gradient(x: Float[Tensor, "*shape"], factor: float = 1.0) -> Float[Tensor, "*shape"]:
    """`x` itself; its gradient changes its sign, and its size by `factor` (Ganin & Lempitsky, ICML 2015).

    Whatever minimizes a loss behind it is trained against whatever produced `x`: both with one backward pass.
    """
    return _Reversal.apply(x, factor)


def gram_difference(
    first: Float[Tensor, "batch positions channels"], second: Float[Tensor, "batch positions channels"]
) -> Float[Tensor, ""]:
    """‖G − G'‖ / (4 N² M²) over the whole batch, G = FᵀF of every image, N channels and M positions.

    Gatys et al. (CVPR 2016) and the paper have the square of the norm; the authors' program has its root.
    """
    positions, channels = first.shape[1:]
    one, other = (part.transpose(1, 2) @ part for part in (first, second))
    return torch.linalg.vector_norm(one - other) / (4 * channels**2 * positions**2)


METHOD = Method(
    "afa", "Hu & Ma, ECCV 2022", AdversarialAugmentation, settings=BACKBONE_SETTINGS | {"objective_lr": OBJECTIVE_RATE}
)
