"""Gaussians of embeddings that are all in memory."""

import torch

from cplsr.reservation.moments import ClassMoments
from cplsr.reservation.statistics import ClassGaussians


def gaussians_of(
    embeddings: torch.Tensor, labels: torch.Tensor, *, statistics: str = "raw", **options
) -> ClassGaussians:
    """Of embeddings labelled 0, ..., B − 1."""
    moments = ClassMoments(int(labels.max()) + 1, embeddings.shape[1], statistics=statistics)
    moments.update(embeddings, labels)
    return ClassGaussians.from_moments(moments, **options)


def covariances(gaussians: ClassGaussians) -> torch.Tensor:
    """All Σ_k at once, (classes, dim, dim)."""
    return torch.stack([gaussians.covariance(label) for label in range(gaussians.moments.classes)])
