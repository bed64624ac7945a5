"""The prototype classifier: class means and cosines, the same in training, validation, evaluation and prediction."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from numpy import ndarray
from torch import Tensor

from cplsr.settings.episodes import PrototypeKind

TEMPERATURE = 20.0
"""Default factor on the cosines before the softmax; fixed, not learned."""


def normalize(vectors: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
    """Scale each vector to length one. A zero vector stays zero, and so does its influence: no division by zero."""
    lengths = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.where(lengths > 0, lengths, 1)


def unit(vectors: Float64[ndarray, "*batch dim"]) -> Float64[ndarray, "*batch dim"]:
    """The same for numpy's arrays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)


def prototypes(
    support: Float[Tensor, "*episodes way shot dim"], kind: PrototypeKind = "mean"
) -> Float[Tensor, "*episodes way dim"]:
    """One prototype per class: the mean of its raw support embeddings, or of the embeddings scaled to length one."""
    return (normalize(support) if kind == "mean_of_normalized" else support).mean(dim=-2)


def cosine_logits(
    queries: Float[Tensor, "*episodes queries dim"],
    class_prototypes: Float[Tensor, "*episodes way dim"],
    temperature: float = TEMPERATURE,
) -> Float[Tensor, "*episodes queries way"]:
    """`temperature` · cos(query, prototype); 0 where either of the two is the zero vector."""
    return temperature * normalize(queries) @ normalize(class_prototypes).transpose(-1, -2)


def query_targets(way: int, query: int) -> Int[Tensor, "queries"]:
    """The right answers when an episode's queries stand class by class: 0, 0, ..., 1, 1, ..."""
    return torch.arange(way).repeat_interleave(query)


def accuracy(
    logits: Float[Tensor, "*episodes queries way"], targets: Int[Tensor, "*#episodes queries"]
) -> Float[Tensor, "*episodes"]:
    """Share of an episode's queries whose highest logit is the right one."""
    return (logits.argmax(dim=-1) == targets).double().mean(dim=-1)
