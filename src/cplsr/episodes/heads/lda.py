"""Linear discriminant analysis with a shrunk covariance, solved among the support images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from cplsr.declared import above
from cplsr.episodes.heads.head import ProductHead, Products


@final
@dataclass(frozen=True)
class Lda(ProductHead):
    """zᵀ A μ_k − ½ μ_kᵀ A μ_k with A the inverse of (1 − ρ) S + ρ (tr S / d) I, on embeddings of length one.

    S is the pooled covariance within the classes and has far fewer independent rows than columns, so A is found from
    the products of the support images (Woodbury). Where every class has one image there is no S, and A is I: the
    nearest class mean answers.

    Attributes:
        shrinkage: The share ρ, or Ledoit and Wolf's estimate of the best one.
    """

    shrinkage: Annotated[float, above(0, 1)] | Literal["ledoit_wolf"] = 0.8

    name: ClassVar[str] = "lda"
    linear: ClassVar[bool] = True
    temperature: ClassVar[float | None] = 1.0

    def from_products(self, products: Products) -> Float[Tensor, "*episodes queries way"]:
        """See `ProductHead.from_products`."""
        cosines = products.unit()
        means = cosines.averaging
        weights = self._weights(cosines) if products.support > len(products.labels.unique()) else means
        offsets = (means * (cosines.of_support @ weights)).sum(dim=-2) / 2
        return cosines.of_queries @ weights - offsets[..., None, :]

    def _weights(self, cosines: Products) -> Float[Tensor, "*episodes support way"]:
        """Of the support images in A μ_k."""
        freedom = cosines.support - len(cosines.labels.unique())
        means = cosines.averaging
        identity = torch.eye(cosines.support, dtype=means.dtype, device=means.device)
        center = identity - cosines.members @ means.T  # C = center · X, the deviations from the class means
        deviations = center @ cosines.of_support @ center.T  # C Cᵀ
        spread = deviations.diagonal(dim1=-2, dim2=-1).sum(dim=-1)[..., None, None] / freedom  # tr S
        shrinkage = (
            ledoit_wolf_shrinkage(deviations, cosines.dim)[..., None, None]
            if self.shrinkage == "ledoit_wolf"
            else torch.full_like(spread, self.shrinkage)
        )
        # The covariance is a CᵀC + b I and its inverse (I − a Cᵀ (a C Cᵀ + b I)⁻¹ C) / b.
        a, b = (1 - shrinkage) / freedom, (shrinkage * spread / cosines.dim).clamp(min=torch.finfo(means.dtype).eps)
        along = center @ cosines.of_support @ means  # C μ
        factor = torch.linalg.cholesky(a * deviations + b * identity)
        return (means - a * center.T @ torch.cholesky_solve(along, factor)) / b  # A μ = Xᵀ weights


def ledoit_wolf_shrinkage(deviations: Float[Tensor, "*episodes rows rows"], dim: int) -> Float[Tensor, "*episodes"]:
    """Estimate the ρ that brings the covariance closest to the true one (Ledoit and Wolf, 2004).

    The covariance CᵀC / n is that of n rows around 0 with `dim` numbers each, `deviations` are their inner products.
    """
    rows = deviations.shape[-1]
    squares = deviations.diagonal(dim1=-2, dim2=-1)
    scale = squares.sum(dim=-1) / (rows * dim)
    second = deviations.square().sum(dim=(-2, -1)) / rows**2
    distance = second / dim - scale**2
    error = (squares.square().sum(dim=-1) / rows - second) / (rows * dim)
    share = torch.minimum(error, distance) / torch.where(distance > 0, distance, 1)
    return torch.where(distance > 0, share, 1.0).clamp(min=torch.finfo(deviations.dtype).eps, max=1)
