"""What all runs of an ablation share, and how ray runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cplsr.declared import Declared, between
from cplsr.settings.backbone import BackboneSettings
from cplsr.settings.embedding import EmbeddingSettings, ThreadSettings
from cplsr.settings.numbers import DrawnEpisodes, Images
from cplsr.settings.training import TrainingDomains


@dataclass(frozen=True)
class SharedSettings(ThreadSettings, EmbeddingSettings, TrainingDomains, BackboneSettings):
    """Backbone, data and evaluation of all runs."""

    shots: tuple[Images, ...] = (1, 5)
    """Shots that every row is trained and measured at."""
    evaluation_episodes: DrawnEpisodes = 5000
    """Episodes of each target, shot and seed."""
    evaluation_query: Images = 15
    """Query images of each class in them."""
    match_shot: bool = True
    """Measure each adapter only at the shot it was trained for."""
    best_on_target: bool = False
    """Also keep the adapter of every validation and measure all of them, for two more columns: the last one, and the
    best one chosen on the target, which is not allowed but often published."""


@dataclass(frozen=True)
class RaySettings(Declared):
    """How ray is used."""

    ray_address: str | None = None
    """An existing cluster. Default: RAY_ADDRESS, else one of this machine alone."""
    ray_workers: Annotated[int, between(1, 10_000)] | None = None
    """Runs at a time on this machine's own cluster. Default: one for every core; --threads says how many each takes."""
    ray_gpus: Annotated[float, between(0, 1000)] = 0.0
    """GPUs for each run."""
