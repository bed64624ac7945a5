"""A class token decoupled from the domain (CD-CLS)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from cplsr.backbones.backbone import Backbone
from cplsr.methods.base import Method, Size
from cplsr.methods.class_head import CLASS_LEVEL_SETTINGS, class_head, class_loss, image_classes
from cplsr.methods.style import entering
from cplsr.training.objective import Embed, Loss, Objective, TrainingEpisode

PACE = 1e-2
"""Rate of the domain tokens as a share of the classifier's."""

START = 0.02
"""Standard deviation of the random class token."""


@dataclass(eq=False)
class DomainTokens(Objective):
    """Classify base images by a fixed class token, to which tokens are added that take what belongs to the domain.

    Zou et al., "A Closer Look at the CLS Token for Cross-Domain Few-Shot Learning", NeurIPS 2024. The class token is
    random and never learns; every base class has a learned domain token, which is added to it where its images enter
    the first block. Loss: cross-entropy over all base classes of a linear classifier on the class token, and `penalty`
    times the mean |cosine| of the class token and the domain tokens. On a target the domain tokens are dropped: they
    belong to the objective, so no adapter holds them.

    Other than the authors':
    - where an adapter learns and the backbone is frozen, the class token is the backbone's own, which it cannot change;
      with `random_token=False` it is that of the whole backbone too;
    - the token that was trained with is kept for targets; the released code does not store it and draws another;
    - a domain token is its start value + PACE · θ with a learned θ, which gives it the rate of the released code, a
      hundredth of the classifier's, at the rate of the objective; weight decay so pulls it to its start value;
    - tuning the class token on a target's support set is not part of this method;
    - what `cplsr.methods.class_head` says of all such methods.
    """

    name: ClassVar[str] = "cd_cls"

    penalty: Size = 100.0
    random_token: bool = True

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """Fix the class token; make domain tokens and classifier."""
        generator = torch.Generator().manual_seed(0)
        token = backbone.model.get_parameter("embeddings.cls_token")
        if self.random_token and token.requires_grad:
            nn.init.trunc_normal_(token, std=START, generator=generator)
        self.class_token = token.requires_grad_(False).detach().flatten()  # the same memory, whatever is loaded into it
        start = math.sqrt(2 / (classes * backbone.dim)) * torch.randn(classes, backbone.dim, generator=generator)
        self.register_buffer("start", start, persistent=False)
        self.changes = nn.Parameter(torch.zeros_like(start))
        self.classifier = class_head(backbone.embedding_dim, classes)

    @property
    def domain_tokens(self) -> Float[Tensor, "classes dim"]:
        """The domain tokens as they are now."""
        return self.get_buffer("start") + PACE * self.changes

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """Class-level loss of the images with their domain tokens, and the penalty."""
        tokens = self.domain_tokens
        added = tokens[image_classes(episode).to(tokens.device)].unsqueeze(1)
        between = entering([0], lambda rows: torch.cat([rows[:, :1] + added.to(rows), rows[:, 1:]], 1))
        loss, right = class_loss(self.classifier, episode, embed(episode.images, between))
        cosines = cosine_similarity(self.class_token.to(tokens), tokens, dim=-1)
        return loss + self.penalty * cosines.abs().mean(), right


METHOD = Method("cd_cls", "Zou et al., NeurIPS 2024", DomainTokens, settings=CLASS_LEVEL_SETTINGS)
