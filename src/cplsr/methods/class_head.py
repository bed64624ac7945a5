"""Class-level training: a linear classifier over all base classes."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import skip_init

from cplsr.episodes.prototypes import accuracy
from cplsr.training.objective import Loss, TrainingEpisode

CLASS_LEVEL_SETTINGS: dict[str, Any] = {
    "lr": 1e-7,
    "objective_lr": 1e-3,
    "weight_decay": 0.01,
    "augment": "crop",
    "sst": False,
    "pe": False,
}
"""What AttnTemp's and CD-CLS' authors start from: a classifier that learns fast on a backbone that hardly moves."""


def class_head(dim: int, classes: int, *, bias: bool = False) -> nn.Linear:
    """A linear classifier, weights uniform in ±1/√dim as torch has them, drawn from a seed of its own, biases 0."""
    head = skip_init(nn.Linear, dim, classes, bias=bias)
    nn.init.uniform_(head.weight, -(dim**-0.5), dim**-0.5, generator=torch.Generator().manual_seed(0))
    if bias:
        nn.init.zeros_(head.bias)
    return head


def image_classes(episode: TrainingEpisode) -> Int64[Tensor, "images"]:
    """The base class of every image of the batch."""
    return episode.classes.repeat_interleave(episode.pixels.shape[1])


def class_loss(head: nn.Linear, episode: TrainingEpisode, embeddings: Float[Tensor, "images dim"]) -> Loss:
    """Cross-entropy over all base classes, and how many images are given to the right one; support and query alike."""
    logits, targets = head(embeddings), image_classes(episode).to(embeddings.device)
    return cross_entropy(logits, targets), accuracy(logits.detach(), targets)
