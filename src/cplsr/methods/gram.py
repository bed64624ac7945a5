"""Gram matrices: which channels of a feature map are active together, wherever in the image that is."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def gram(features: Float[Tensor, "batch positions channels"]) -> Float[Tensor, "batch channels channels"]:
    """FᵀF, averaged over the positions."""
    return features.transpose(1, 2) @ features / features.shape[1]


def gram_difference(
    first: Float[Tensor, "batch positions channels"], second: Float[Tensor, "batch positions channels"]
) -> Float[Tensor, ""]:
    """¼ of the mean squared difference of two images' Gram matrices, averaged over the batch.

    That is Σ(G − G')² / (4 N² M²) for N channels and M positions with sums as entries (Gatys et al., CVPR 2016).
    """
    return (gram(first) - gram(second)).square().mean() / 4
