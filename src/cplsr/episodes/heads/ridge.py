"""Ridge regression on one-hot labels, solved in closed form among the support images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from cplsr.declared import above
from cplsr.episodes.heads.head import ProductHead, Products, one_hot


@final
@dataclass(frozen=True)
class Ridge(ProductHead):
    """z · W with W = Xᵀ (X Xᵀ + λ I)⁻¹ Y, on embeddings of length one: X the support images, Y their one-hot labels.

    Attributes:
        penalty: The weight λ; the larger it is, the closer the answers are to those of prototypes.
    """

    penalty: Annotated[float, above(0, 1e9)] = 0.1

    name: ClassVar[str] = "ridge"

    def from_products(
        self, products: Products, labels: Int[Tensor, "support"], way: int
    ) -> Float[Tensor, "*episodes queries way"]:
        """See `ProductHead.from_products`."""
        cosines = products.unit()
        factor = _factor(cosines.of_support, self.penalty)
        return cosines.of_queries @ torch.cholesky_solve(one_hot(labels, way, factor), factor)


def leave_one_out_scores(
    support: Float[Tensor, "*episodes support support"], labels: Int[Tensor, "support"], way: int, penalty: float
) -> Float[Tensor, "*episodes support way"]:
    """Score each support image as if it had been left out, without solving anything again.

    With G = X Xᵀ + λ I and α = G⁻¹ Y, the residual of image i is α_i / (G⁻¹)_ii.

    Args:
        support: Inner products of the support images.
        labels: The class of each.
        way: The number of classes.
        penalty: The weight λ.
    """
    factor = _factor(support, penalty)
    truth = one_hot(labels, way, factor)
    inverse = torch.cholesky_inverse(factor)
    return truth - inverse @ truth / inverse.diagonal(dim1=-2, dim2=-1)[..., None]


def _factor(
    support: Float[Tensor, "*episodes support support"], penalty: float
) -> Float[Tensor, "*episodes support support"]:
    identity = torch.eye(support.shape[-1], dtype=support.dtype, device=support.device)
    return torch.linalg.cholesky(support + penalty * identity)
