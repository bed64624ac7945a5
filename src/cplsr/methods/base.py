"""What a method is: what it trains, the loss of a base episode, and what it does with a target's support set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from cplsr.declared import between
from cplsr.episodes.prototypes import accuracy, cosine_logits, prototypes, query_targets
from cplsr.evaluation.adapting import Adaptation
from cplsr.training.objective import Loss, Objective, TrainingEpisode

BACKBONE_SETTINGS = {"optimizer": "adam", "lr": 5e-5, "augment": "crop", "sst": False, "pe": False}
"""What methods made for convolutional networks start from: Adam, on plain episodes of augmented images.

Their authors' rate is 1e-3, for networks that are new or nearly so. All weights of a pretrained transformer are lost at
that rate within some episodes; 5e-5 is the rate that methods for such backbones have.
"""

TRANSFORMER_SETTINGS = BACKBONE_SETTINGS | {
    "optimizer": "sgd",
    "schedule": "cosine",
    "warmup": 0.05,
    "temperature": 10.0,
}
"""What methods made for pretrained transformers start from: PMF's, with 5 of its 100 epochs as warm-up.

They are made for 200,000 episodes: in a thousand, SGD at that rate hardly moves a weight.
"""

OBJECTIVE_RATE = 1e-3
"""Learning rate of what a method adds to the backbone, which is new: its authors' own."""

Share = Annotated[float, between(0, 1)]
"""A probability, or a part of a whole."""
Size = Annotated[float, between(0, 1_000_000)]
"""A number that is not negative."""
Times = Annotated[int, between(0, 1_000_000)]
"""How often."""


@dataclass(frozen=True)
class Method:
    """A way to few-shot learning on a vision transformer.

    Attributes:
        objective: Makes the loss of a base episode from options; `None`: CPLSR's own.
        adaptation: Makes what happens on a target's support set; `None`: prototypes and nothing more.
        trains: `backbone` or `adapter`, what it trains unless something else is asked for.
        sees: Which images it may look at in training, in words, for the column of the table.
        settings: Training settings to start from where the user gives none; deviations from the authors' are listed
            with the objective.
        carrier: Kind of the adapter that carries what is trained, for what the method does to it at test time.
    """

    name: str
    reference: str
    objective: type[Objective] | None
    adaptation: type[Adaptation] | None = None
    trains: str = "backbone"
    sees: str = "base images and labels"
    settings: Mapping[str, Any] = field(default_factory=lambda: BACKBONE_SETTINGS)
    carrier: str | None = None


def prototype_logits(
    episode: TrainingEpisode, embeddings: Float[Tensor, "images dim"], temperature: float | Tensor
) -> Float[Tensor, "queries way"]:
    """Compute temperature · cos(query, mean of the support) for an embedded episode."""
    centers, queries = centers_and_queries(episode, embeddings)
    return cosine_logits(queries, centers, 1.0) * temperature


def centers_and_queries(
    episode: TrainingEpisode, embeddings: Float[Tensor, "images dim"]
) -> tuple[Float[Tensor, "way dim"], Float[Tensor, "queries dim"]]:
    """Prototypes of an embedded episode, and its queries."""
    rows = episode.grouped(embeddings)
    return prototypes(rows[:, : episode.shot]), rows[:, episode.shot :].flatten(0, 1)


def prototype_loss(episode: TrainingEpisode, logits: Float[Tensor, "queries way"]) -> Loss:
    """Cross-entropy of the queries, and their accuracy."""
    way, each = episode.pixels.shape[:2]
    targets = query_targets(way, each - episode.shot).to(logits.device)
    return cross_entropy(logits, targets), accuracy(logits.detach(), targets)


def agreement(clean: Float[Tensor, "queries way"], changed: Float[Tensor, "queries way"]) -> Float[Tensor, ""]:
    """KL(clean ‖ changed) of two predictions, averaged over the queries."""
    return kl_div(log_softmax(changed, -1), log_softmax(clean, -1), reduction="batchmean", log_target=True)
