"""What a method is: what it trains, the loss of a base episode, and what it does with a target's support set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax

from cplsr.episodes.prototypes import accuracy, cosine_logits, episode_loss, prototypes, query_targets
from cplsr.evaluation.adapting import Adaptation
from cplsr.training.objective import Objective, TrainingEpisode

BACKBONE_SETTINGS = {"lr": 5e-5, "weight_decay": 0.05, "sst": False, "pe": False}
"""What the published methods start from: slow training of the whole backbone, on plain episodes."""


@dataclass(frozen=True)
class Method:
    """A way to few-shot learning on a vision transformer.

    Attributes:
        name: As on the command line.
        reference: Where it was published.
        trains: `backbone` or `adapter`, what it trains unless something else is asked for.
        sees: Which images it may look at in training, in words, for the column of the table.
        settings: Training settings to start from where the user gives none.
        objective: Makes the loss of a base episode from options; `None`: nothing is trained.
        adaptation: Makes what happens on a target's support set; `None`: prototypes and nothing more.
    """

    name: str
    reference: str
    trains: str
    sees: str
    settings: dict[str, Any] = field(default_factory=dict)
    objective: Callable[..., Objective] | None = None
    adaptation: Callable[..., Adaptation] | None = None


def prototype_logits(
    episode: TrainingEpisode, embeddings: Float[Tensor, "images dim"], temperature: float | Tensor
) -> Float[Tensor, "queries way"]:
    """Compute temperature · cos(query, mean of the support) for an embedded episode."""
    rows = episode.grouped(embeddings)
    return cosine_logits(rows[:, episode.shot :].flatten(0, 1), prototypes(rows[:, : episode.shot]), 1.0) * temperature


def prototype_loss(
    episode: TrainingEpisode, logits: Float[Tensor, "queries way"]
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Cross-entropy of the queries, and their accuracy."""
    way, each = episode.pixels.shape[:2]
    targets = query_targets(way, each - episode.shot).to(logits.device)
    return episode_loss(logits, targets), accuracy(logits.detach(), targets)


def agreement(clean: Float[Tensor, "queries way"], changed: Float[Tensor, "queries way"]) -> Float[Tensor, ""]:
    """KL(clean ‖ changed) of two predictions, averaged over the queries."""
    return kl_div(log_softmax(changed, -1), log_softmax(clean, -1), reduction="batchmean", log_target=True)
