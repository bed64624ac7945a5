"""Class-level training: a linear classifier over all base classes.

All such methods here differ from their authors' programs in that

- a step has the images of an episode, few classes and many images of each, not 128 images drawn from all classes: the
  loop's episodes are the same for every method;
- the authors evaluate every epoch on each target and report its best; here validation classes choose.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import skip_init

from cplsr.episodes.prototypes import accuracy
from cplsr.methods.base import OBJECTIVE_RATE
from cplsr.training.objective import Loss, TrainingEpisode

CLASS_LEVEL_SETTINGS: dict[str, Any] = {
    "lr": 1e-7,
    "objective_lr": OBJECTIVE_RATE,
    "weight_decay": 0.01,
    "augment": "crop",
    "sst": False,
    "pe": False,
}
"""What AttnTemp's and CD-CLS' authors start from: a classifier that learns fast on a backbone that hardly moves."""


def class_head(dim: int, classes: int, *, bias: bool = False, generator: torch.Generator | None = None) -> nn.Linear:
    """A linear layer that starts uniform in ±1/√dim as torch's own, by default drawn from a seed of its own."""
    head = skip_init(nn.Linear, dim, classes, bias=bias)
    generator = generator or torch.Generator().manual_seed(0)
    for parameter in head.parameters():
        nn.init.uniform_(parameter, -(dim**-0.5), dim**-0.5, generator=generator)
    return head


def image_classes(episode: TrainingEpisode) -> Int64[Tensor, "images"]:
    """The base class of every image of the batch."""
    return episode.classes.repeat_interleave(episode.pixels.shape[1])


def class_loss(head: nn.Linear, episode: TrainingEpisode, embeddings: Float[Tensor, "images dim"]) -> Loss:
    """Cross-entropy over all base classes, and how many images are given to the right one; support and query alike."""
    logits, targets = head(embeddings), image_classes(episode).to(embeddings.device)
    return cross_entropy(logits, targets), accuracy(logits.detach(), targets)
