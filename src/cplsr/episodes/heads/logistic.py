"""Multinomial logistic regression: many small problems at once, each solved among its support images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from cplsr.declared import above
from cplsr.episodes.heads.head import ProductHead, Products, one_hot
from cplsr.errors import InputError

TOLERANCE = 1e-9
"""Largest entry of the residual at which a regression counts as solved."""

MAX_STEPS = 10_000


@final
@dataclass(frozen=True)
class Logistic(ProductHead):
    """Decision values of scikit-learn's `LogisticRegression(C)` on embeddings of length one."""

    C: Annotated[float, above(0, 1e6)] = 1.0

    name: ClassVar[str] = "logistic"
    linear: ClassVar[bool] = True
    temperature: ClassVar[float | None] = 1.0

    def from_products(self, products: Products) -> Float[Tensor, "*episodes queries way"]:
        """See `ProductHead.from_products`."""
        cosines = products.unit()
        dual, intercept = fit_logistic(cosines.of_support.double(), products.labels, products.way, C=self.C)
        return (cosines.of_queries.double() @ dual + intercept[..., None, :]).to(cosines.inner.dtype)


def fit_logistic(
    gram: Float[Tensor, "*episodes support support"], labels: Int[Tensor, "support"], way: int, *, C: float = 1.0
) -> tuple[Float[Tensor, "*episodes support way"], Float[Tensor, "*episodes way"]]:
    """Minimize C · Σ cross-entropy + ½‖W‖² with a free intercept, for many episodes at once.

    The solution lies in the span of the support set, W = Aᵀ X, and is where λA = Y − P with λ = 1/C, one-hot labels Y
    and probabilities P. The curvature of the cross-entropy is at most ½ (Böhning's bound), so steps with the fixed
    matrix ½K + λI never overshoot; Nesterov's momentum, dropped in an episode whenever it points uphill, makes them
    few. With two classes scikit-learn charges one weight vector, here two opposite ones of half its size: λ is 2/C.

    Returns:
        A, found from the inner products K of the support embeddings, and the intercept b: the logits are X Wᵀ + b.
    """
    support = gram.shape[-1]
    penalty = (2.0 if way == 2 else 1.0) / C
    truth = one_hot(labels, way, gram)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(0.5 * gram + penalty * torch.eye(support, dtype=gram.dtype)))
    sums = inverse.sum(dim=-1, keepdim=True)
    share = sums / sums.sum(dim=-2, keepdim=True)
    step = inverse - sums @ share.transpose(-1, -2)  # keeps the dual's columns at sum 0, as the free intercept demands

    dual = ahead = torch.zeros(*gram.shape[:-1], way, dtype=gram.dtype)
    logits = logits_ahead = dual
    intercept = intercept_ahead = torch.zeros(*gram.shape[:-2], 1, way, dtype=gram.dtype)
    age = torch.ones(*gram.shape[:-2], 1, 1, dtype=gram.dtype)
    for _ in range(MAX_STEPS):
        residual = truth - logits_ahead.softmax(dim=-1) - penalty * ahead
        if residual.abs().amax() < TOLERANCE:
            return ahead, intercept_ahead[..., 0, :]
        change, shift = step @ residual, 2 * share.transpose(-1, -2) @ residual
        new = (ahead + change, intercept_ahead + shift, logits_ahead + gram @ change + shift)
        uphill = (residual * (new[2] - logits)).sum(dim=(-2, -1), keepdim=True) < 0
        age = torch.where(uphill, 1.0, age)
        older = (1 + (1 + 4 * age**2).sqrt()) / 2
        momentum = (age - 1) / older
        ahead, intercept_ahead, logits_ahead = (
            value + momentum * (value - old) for value, old in zip(new, (dual, intercept, logits), strict=True)
        )
        (dual, intercept, logits), age = new, older
    raise InputError(f"a logistic regression did not settle in {MAX_STEPS:,} steps: lower C, which is {C}")
