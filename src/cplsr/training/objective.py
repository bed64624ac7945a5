"""What a training episode is made to minimize; CPLSR's own, and the place where other methods put theirs."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy

from cplsr.adapters.attach import detach
from cplsr.backbones.backbone import Backbone
from cplsr.backbones.pooling import last_class_token
from cplsr.declared import Declared
from cplsr.episodes.heads.ridge import TEMPERATURE as RIDGE_TEMPERATURE
from cplsr.episodes.heads.ridge import Ridge
from cplsr.episodes.prototypes import accuracy, cosine_logits, prototypes, query_targets
from cplsr.reservation.pseudo_episodes import PseudoEpisode
from cplsr.settings.training import TrainingSettings

Embed = Callable[..., Tensor]
"""The backbone, or what `torch.compile` made of it: `embed(images, between, around)`, the last two if need be."""


@dataclass(frozen=True, eq=False)
class TrainingEpisode:
    """One N-way episode of base images.

    Attributes:
        pixels: Class by class, the `shot` support images before the query images.
        classes: The base classes, each turn of a class a class of its own.
        generator: The episode's own random stream; a resumed run draws the same numbers from it.
        pseudo: The pseudo-episode it is joined with, if any.
    """

    pixels: UInt8[Tensor, "way shot_and_query 3 size size"]
    shot: int
    classes: Int64[Tensor, "way"]
    generator: torch.Generator
    pseudo: PseudoEpisode | None = None

    @property
    def images(self) -> UInt8[Tensor, "images 3 size size"]:
        """All images in one batch."""
        return self.pixels.flatten(0, 1)

    def grouped(self, embeddings: Float[Tensor, "images dim"]) -> Float[Tensor, "way shot_and_query dim"]:
        """Rows of a batch as they stand in the episode."""
        return embeddings.unflatten(0, self.pixels.shape[:2])


Loss = tuple[Float[Tensor, ""], Float[Tensor, ""]]
"""Loss of an episode, and the accuracy of its queries."""


@dataclass(eq=False)
class Objective(Declared, nn.Module, ABC):
    """The loss of a training episode. Parameters of its own, if any, are trained beside the adapter's.

    Its options are the fields of its dataclass, checked as they are declared.

    Attributes:
        partner: Whether it wants a second episode of other images beside each.
        options: What it was made with, defaults included, for the record.
        length: How many losses a run asks of it in this process; `train` sets it before `prepare`.
    """

    name: ClassVar[str]
    partner: ClassVar[bool] = False

    def __post_init__(self) -> None:
        nn.Module.__init__(self)
        self.length = 1
        super().__post_init__()
        self.options = self.as_dict()

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """Make what depends on the backbone and on the number of base classes, turned ones included."""

    @abstractmethod
    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """Loss, and the accuracy of the queries."""


class JointObjective(Objective):
    """CPLSR: cross-entropy over the episode's classes joined with those of a pseudo-episode; no options of its own.

    Pseudo-embeddings are class tokens of the last block. Depth embeddings therefore give a sum of two losses from one
    forward pass: that of the episode alone, read in depth, and the joint one of the last class tokens in them. (Those
    have length one. Cosines do not mind; a mean of raw tokens weighs the longer ones more, this one does not.)

    Head, temperature, prototype and anchor are those of the run's settings.
    """

    name = "cplsr"

    def __init__(self, settings: TrainingSettings) -> None:
        super().__init__()
        self.settings = settings
        self.token_dim: int | None = None

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """Whether embeddings are read in depth, and how wide a token is then; a frozen copy for the anchor."""
        self.token_dim = backbone.dim if backbone.pooling == "depth" else None
        if self.settings.anchor > 0:
            # Weights that do not learn are shared. The method of the copy, not the copy, which would be trained and
            # stored as a part of this module.
            shared = {id(weight): weight for weight in backbone.parameters() if not weight.requires_grad}
            self.frozen: Embed = detach(copy.deepcopy(backbone, shared)).forward

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """`joint_loss` of the embedded images, and where they are anchored how far they went."""
        embeddings = embed(episode.images)
        loss, right = self._episode_loss(episode.grouped(embeddings), episode)
        if self.settings.anchor > 0:
            with torch.no_grad():
                frozen = self.frozen(episode.images)
            loss = loss + self.settings.anchor * (1 - cosine_similarity(embeddings, frozen)).mean()
        return loss, right

    def _episode_loss(self, rows: Float[Tensor, "way shot_and_query dim"], episode: TrainingEpisode) -> Loss:
        if self.token_dim is None or episode.pseudo is None:
            return joint_loss(rows, episode.shot, episode.pseudo, self.settings)
        deep, right = joint_loss(rows, episode.shot, None, self.settings)
        joint, _ = joint_loss(last_class_token(rows, self.token_dim), episode.shot, episode.pseudo, self.settings)
        return deep + joint, right


def joint_loss(
    embeddings: Float[Tensor, "way shot_and_query dim"],
    shot: int,
    pseudo: PseudoEpisode | None,
    settings: TrainingSettings,
) -> Loss:
    """Cross-entropy of all queries, real and pseudo, over all 2N classes; and the accuracy of the real ones.

    Without a pseudo-episode it is the plain loss over N classes. Pseudo-embeddings are constants: they act by pushing
    the real ones.
    """
    way, each = embeddings.shape[:2]
    if pseudo is not None:
        embeddings = torch.cat([embeddings, torch.cat([pseudo.support, pseudo.query], dim=1).to(embeddings)])
    logits = query_logits(embeddings[:, :shot], embeddings[:, shot:].flatten(0, 1), settings)
    targets = query_targets(len(embeddings), each - shot).to(embeddings.device)
    real = way * (each - shot)
    return cross_entropy(logits, targets), accuracy(logits[:real].detach(), targets[:real])


def query_logits(
    support: Float[Tensor, "way shot dim"], queries: Float[Tensor, "queries dim"], settings: TrainingSettings
) -> Float[Tensor, "queries way"]:
    """The head's scores times the temperature of the run: cos(z, p_k), or z · W of the ridge regression."""
    if settings.head == "prototypes":
        return cosine_logits(queries, prototypes(support, settings.prototype), settings.temperature)
    ridge, (way, shot, _) = Ridge(), support.shape
    scores = ridge.scores(support.flatten(0, 1), query_targets(way, shot).to(support.device), queries, way)
    return scores * (settings.temperature / RIDGE_TEMPERATURE)
