"""Local-global distillation prototypical network (LDP-net)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from jaxtyping import Float, UInt8
from msgspec import Meta
from torch import Tensor, nn
from torch.nn.functional import log_softmax, softmax

from cplsr.adapters.attach import adapter_of
from cplsr.backbones.backbone import Backbone
from cplsr.data.augment import JITTER, color_jitter, crop_boxes, cut, flip, sometimes
from cplsr.declared import above, between
from cplsr.episodes.prototypes import cosine_logits
from cplsr.errors import InputError
from cplsr.methods.base import BACKBONE_SETTINGS, Method, centers_and_queries, prototype_loss
from cplsr.settings.numbers import Temperature
from cplsr.training.objective import Embed, Loss, Objective, TrainingEpisode

JITTER_CHANCE = 0.8
"""How often the colors of a piece are changed."""

Area = Annotated[float, above(0, 1)]


@dataclass(eq=False)
class LocalGlobalDistillation(Objective):
    """A query and small pieces of it are given to the same classes, and so are pieces of another query of its class.

    Zhou et al., "Revisiting Prototypical Network for Cross Domain Few-Shot Learning", CVPR 2023. Of every query `crops`
    pieces, 5 to 14 % of its area each, are embedded by the local branch: an exponential moving average of the trained
    parameters with momentum `momentum`, without gradient. Both branches predict with the prototypes of the global one.
    H(p, p') = −Σ p log p'. Loss: cross-entropy + `self_image` · mean H(global, local) over all pieces + `cross_image` ·
    mean H(global of one query, local of another of its class), one random pair per class and episode. The network that
    is kept is the global one.

    The authors' program, too, lets the gradient into both sides of H: into the global prediction, and through the
    prototypes into the local one.

    Deviations from the authors' program:

    - Pieces are enlarged to the backbone's image size, because position embeddings fit one size; theirs are 96 pixels
      wide, of 224.
    - Pieces are not blurred, grayed or changed in hue, and are cut from images whose colors are changed already: images
      are augmented before a method sees them.
    - Distances are cosines with a temperature, as for all methods here; theirs are squared Euclidean ones.
    - The two queries of a pair differ, class by class; theirs stand at the same two places in all classes, which may
      coincide. With one query per class there is no pair, and no third term.
    - The test is that of all methods; theirs is a logistic regression on the roots of the features.
    - Adam at 5e-5 instead of 1e-3 (see `cplsr.methods.base.BACKBONE_SETTINGS`).
    """

    name: ClassVar[str] = "ldp_net"

    crops: Annotated[int, between(1, 1000)] = 6
    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.998
    self_image: float = 1.0
    cross_image: float = 0.15
    share: tuple[Area, Area] = (0.05, 0.14)
    """The smallest and the largest area of a piece."""
    temperature: Temperature = 20.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share[0] > self.share[1]:
            raise InputError(f"share is {list(self.share)}: give the smallest and the largest area of a piece")

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """The local branch: a twin of what is trained."""
        self.local = MovingAverage(adapter_of(backbone).named_parameters(), self.momentum)

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """Prototype loss, and the distillation within an image and between two."""
        self.local.follow()
        queries = episode.pixels[:, episode.shot :]
        pieces = local_pieces(queries.flatten(0, 1), self.crops, self.share, episode.generator)
        with self.local.in_place():
            local_rows = embed(pieces)
        centers, rows = centers_and_queries(episode, embed(episode.images))
        whole, local = (cosine_logits(part, centers, self.temperature) for part in (rows, local_rows))
        loss, right = prototype_loss(episode, whole)
        whole, local = whole.unflatten(0, queries.shape[:2]), local.unflatten(0, (self.crops, *queries.shape[:2]))
        loss = loss + self.self_image * distillation(whole, local)
        if queries.shape[1] > 1:
            one, other = image_pairs(len(queries), queries.shape[1], episode.generator).to(whole.device).unbind(1)
            classes = torch.arange(len(queries), device=whole.device)
            loss = loss + self.cross_image * distillation(whole[classes, one], local[:, classes, other])
        return loss, right


def local_pieces(
    images: UInt8[Tensor, "images 3 size size"], count: int, share: tuple[float, float], generator: torch.Generator
) -> UInt8[Tensor, "pieces 3 size size"]:
    """`count` pieces of every image, flipped and with other colors at random; all first pieces before all second."""
    parts = []
    for _ in range(count):  # not all at once: the floats of 450 pieces fill a gigabyte
        piece = cut(images.float() / 255, crop_boxes(len(images), share, generator))
        piece = flip(piece, generator)
        piece = sometimes(color_jitter(piece, JITTER, generator), piece, JITTER_CHANCE, generator)
        parts.append((piece * 255).round().to(torch.uint8))
    return torch.cat(parts)


def distillation(whole: Float[Tensor, "*#batch way"], local: Float[Tensor, "*batch way"]) -> Float[Tensor, ""]:
    """H(p, p') = −Σ p log p' of two predictions from their logits, averaged."""
    return -(softmax(whole, dim=-1) * log_softmax(local, dim=-1)).sum(dim=-1).mean()


def image_pairs(way: int, query: int, generator: torch.Generator) -> Tensor:
    """Two different queries of every class."""
    return torch.rand(way, query, generator=generator).argsort(dim=1)[:, :2]


class MovingAverage(nn.Module):
    """The exponential moving average of trained parameters: twin ← m · twin + (1 − m) · parameter after every step.

    The twin is kept in buffers, so that it is stored and restored with the module that owns it; the parameters it
    follows belong to somebody else, and are not parameters of this module.
    """

    def __init__(self, parameters: Iterable[tuple[str, nn.Parameter]], momentum: float) -> None:
        super().__init__()
        self.momentum = momentum
        # In a tuple, so that torch does not take them for parameters of this module.
        self._followed = tuple((name.replace(".", "/"), parameter) for name, parameter in parameters)
        self._seen: tuple[int, ...] | None = None
        for name, parameter in self._followed:
            self.register_buffer(name, parameter.detach().clone())

    def follow(self) -> None:
        """Move the twin toward the parameters, once after each time they have changed.

        Calling it at the start of every loss is thus right however many losses one optimizer step adds up: torch counts
        how often a tensor was written to, and the twin moves only when the count did. The first call always moves it,
        which changes nothing in a new run and is due in a resumed one, whose state was stored right after a step.
        """
        written = tuple(parameter._version for _, parameter in self._followed)
        if written == self._seen:
            return
        self._seen = written
        with torch.no_grad():
            for name, parameter in self._followed:
                self.get_buffer(name).lerp_(parameter, 1 - self.momentum)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The twin's values in place of the parameters', until the block ends. Nothing may be trained in it."""
        own = [parameter.data for _, parameter in self._followed]
        try:
            with torch.no_grad():
                for name, parameter in self._followed:
                    parameter.data = self.get_buffer(name)
                yield
        finally:
            for (_, parameter), value in zip(self._followed, own, strict=True):
                parameter.data = value


METHOD = Method(
    "ldp_net", "Zhou et al., CVPR 2023", LocalGlobalDistillation, settings=BACKBONE_SETTINGS | {"augment": "colors"}
)
