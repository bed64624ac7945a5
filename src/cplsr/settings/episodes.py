"""Episodes: how large they are, and on which of them a method is measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from cplsr.declared import Declared
from cplsr.settings.numbers import DrawnEpisodes, Images, Seed, Way, refuse_repeats

PrototypeKind = Literal["mean", "mean_of_normalized"]
Queries = Literal["balanced", "dirichlet"]


@dataclass(frozen=True)
class EpisodeShape(Declared):
    """N classes with K support and K_q query images each."""

    way: Way = 5
    """Classes in an episode (N)."""
    shot: Images = 5
    """Support images of each class (K)."""
    query: Images = 15
    """Query images of each class (K_q)."""


@dataclass(frozen=True)
class EpisodeSettings(Declared):
    """Which episodes a method is measured on; the paper's by default."""

    shots: tuple[Images, ...] = (1, 5)
    """Support images of each class."""
    way: Way = 5
    """Classes in an episode."""
    query: Images = 15
    """Query images of each class."""
    queries: tuple[Queries, ...] = ("balanced",)
    """Equally many queries of each class, or as many in all in shares drawn from Dirichlet(2, ..., 2); or both."""
    episodes: DrawnEpisodes = 5000
    """Episodes of each target and shot."""
    seed: Seed = 0
    """Which episodes: the same seed on the same labels gives the same ones."""
    prototype: PrototypeKind = "mean"
    """Prototype of a class: mean of the raw embeddings, or of the embeddings scaled to length one."""

    def __post_init__(self) -> None:
        """Refuse what stands twice."""
        super().__post_init__()
        refuse_repeats("shots", self.shots)
        refuse_repeats("queries", self.queries)

    @property
    def by_queries(self) -> list[EpisodeSettings]:
        """The same with one kind of queries each, the balanced ones first."""
        return [replace(self, queries=(kind,)) for kind in sorted(self.queries)]
