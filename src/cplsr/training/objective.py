"""What a training episode is made to minimize; CPLSR's own, and the place where other methods put theirs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor, nn

from cplsr.backbones.backbone import Backbone
from cplsr.declared import Declared
from cplsr.episodes.prototypes import accuracy, cosine_logits, episode_loss, prototypes, query_targets
from cplsr.reservation.pseudo_episodes import PseudoEpisode
from cplsr.settings.episodes import PrototypeKind
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
        """Check the options."""
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
    """CPLSR: cross-entropy over the episode's prototypes joined with those of a pseudo-episode; no options of its own.

    Args:
        settings: Of the run; temperature and prototype are those.
    """

    name = "cplsr"

    def __init__(self, settings: TrainingSettings) -> None:
        super().__init__()
        self.settings = settings

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """`joint_loss` of the embedded images."""
        rows, settings = episode.grouped(embed(episode.images)), self.settings
        return joint_loss(
            rows, episode.shot, episode.pseudo, temperature=settings.temperature, prototype=settings.prototype
        )


def joint_loss(
    embeddings: Float[Tensor, "way shot_and_query dim"],
    shot: int,
    pseudo: PseudoEpisode | None,
    *,
    temperature: float,
    prototype: PrototypeKind = "mean",
) -> Loss:
    """Cross-entropy of all queries, real and pseudo, over all 2N prototypes; and the accuracy of the real ones.

    Without a pseudo-episode it is the plain prototype loss over N classes. Pseudo-embeddings are constants: they act by
    pushing the real ones.
    """
    way = len(embeddings)
    support, query = embeddings[:, :shot], embeddings[:, shot:]
    centers = prototypes(support, prototype)
    queries, targets = query.flatten(0, 1), query_targets(way, query.shape[1]).to(embeddings.device)
    real = len(queries)
    if pseudo is not None:
        more, asked = (part.to(embeddings) for part in (pseudo.support, pseudo.query))
        centers = torch.cat([centers, prototypes(more, prototype)])
        queries = torch.cat([queries, asked.flatten(0, 1)])
        targets = torch.cat([targets, way + query_targets(*asked.shape[:2]).to(targets)])
    logits = cosine_logits(queries, centers, temperature)
    return episode_loss(logits, targets), accuracy(logits[:real].detach(), targets[:real])
