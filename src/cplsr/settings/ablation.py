"""What all runs of an ablation share, and how ray runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cplsr.declared import between
from cplsr.settings.backbone import BackboneSettings, Pooling
from cplsr.settings.embedding import EmbeddingSettings, ThreadSettings
from cplsr.settings.engine import ClusterSettings
from cplsr.settings.numbers import DrawnEpisodes, Images
from cplsr.settings.training import TrainingDomains


@dataclass(frozen=True)
class SharedSettings(ThreadSettings, EmbeddingSettings, BackboneSettings, TrainingDomains):
    """Backbone, data and evaluation of all runs."""

    shots: tuple[Images, ...] = (1, 5)
    """Shots that every row is trained and measured at."""
    evaluation_episodes: DrawnEpisodes = 5000
    """Episodes of each target, shot and seed."""
    evaluation_query: Images = 15
    """Query images of each class in them."""
    read_pooling: Pooling | None = None
    """Embedding that every row is measured with. Default: as in training."""
    read_head: str | None = None
    """What answers the evaluation episodes: prototypes, ridge, ridge:penalty=1 … Default: as in training."""
    match_shot: bool = True
    """Measure each adapter only at the shot it was trained for: every row has one for each shot."""
    best_on_target: bool = False
    """Also keep the adapter of every validation and measure all of them, for two more columns: the last one, and the
    best one chosen on the target, which is not allowed but often published."""


@dataclass(frozen=True)
class RaySettings(ClusterSettings):
    """How ray is used."""

    ray_workers: Annotated[int, between(1, 10_000)] | None = None
    """Runs at a time on this machine's own cluster. Default: one for every core; --threads says how many each takes."""
