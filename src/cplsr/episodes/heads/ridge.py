"""Ridge regression on one-hot labels, solved in closed form among the support images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from cplsr.declared import above
from cplsr.episodes.heads.head import ProductHead, Products, one_hot

TEMPERATURE = 12.0


@final
@dataclass(frozen=True)
class Ridge(ProductHead):
    """12 · z · W with W = Xᵀ (X Xᵀ + λ I)⁻¹ Y, on embeddings of length one: X the support images, Y one-hot labels.

    The factor 12 makes them logits: with it they are best calibrated on domains that are for validation.

    Attributes:
        penalty: The weight λ; the larger it is, the closer the answers are to those of prototypes.
    """

    penalty: Annotated[float, above(0, 1e9)] = 0.1

    name: ClassVar[str] = "ridge"
    linear: ClassVar[bool] = True
    temperature: ClassVar[float | None] = TEMPERATURE

    def from_products(self, products: Products) -> Float[Tensor, "*episodes queries way"]:
        """See `ProductHead.from_products`."""
        cosines = products.unit()
        factor = penalized_factor(cosines.of_support, self.penalty)
        return TEMPERATURE * cosines.of_queries @ torch.cholesky_solve(cosines.members, factor)


def fit_ridge(
    support: Float[Tensor, "support dim"], labels: Int[Tensor, "support"], penalty: float
) -> tuple[Float[Tensor, "dim way"], Float[Tensor, "support way"]]:
    """W, and z · W for each support image as if it had been left out; solved in the smaller of the two spaces.

    Embeddings have length one, and every class has some. With A = (Xᵀ X + λ I)⁻¹ the weights are A Xᵀ Y, and the
    residual of a left-out image is its residual divided by 1 − xᵀ A x.
    """
    truth = one_hot(labels, int(labels.max()) + 1, support)
    if len(support) <= support.shape[1]:
        products = support @ support.T
        weights = support.T @ torch.cholesky_solve(truth, penalized_factor(products, penalty))
        return weights, leave_one_out_scores(products, labels, truth.shape[1], penalty)
    inverse = torch.cholesky_inverse(penalized_factor(support.T @ support, penalty))
    weights = inverse @ (support.T @ truth)
    leverage = (support @ inverse * support).sum(dim=1, keepdim=True)
    return weights, truth - (truth - support @ weights) / (1 - leverage)


def leave_one_out_scores(
    support: Float[Tensor, "*episodes support support"],
    labels: Int[Tensor, "support"],
    way: int,
    penalty: float | Tensor,
) -> Float[Tensor, "*episodes support way"]:
    """z · W for each support image as if it had been left out, without solving anything again.

    With G = X Xᵀ + λ I and α = G⁻¹ Y, the residual of image i is α_i / (G⁻¹)_ii. Given are the inner products X Xᵀ,
    and λ, or one for each episode (…, 1, 1).
    """
    factor = penalized_factor(support, penalty)
    truth = one_hot(labels, way, factor)
    inverse = torch.cholesky_inverse(factor)
    return truth - inverse @ truth / inverse.diagonal(dim1=-2, dim2=-1)[..., None]


def penalized_factor(
    support: Float[Tensor, "*episodes support support"], penalty: float | Tensor
) -> Float[Tensor, "*episodes support support"]:
    """The Cholesky factor of the products with λ added to their diagonal."""
    identity = torch.eye(support.shape[-1], dtype=support.dtype, device=support.device)
    return torch.linalg.cholesky(support + penalty * identity)
