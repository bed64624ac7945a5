"""What all runs of an ablation share."""

from __future__ import annotations

from dataclasses import dataclass

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
