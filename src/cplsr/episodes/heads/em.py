"""Prototypes that the queries help to find, by expectation and maximization, with an estimated class prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from cplsr.declared import above, between
from cplsr.episodes.heads.centered import Center, centered
from cplsr.episodes.heads.head import ProductHead, Products


@final
@dataclass(frozen=True)
class Em(ProductHead):
    """ln p_ik ∝ γ ln π_k − t/2 ‖z_i − w_k‖² on centered embeddings, where p, w and π are found in turns.

    w_k = (Σ support of k + Σ_i p_ik z_i) / (their number) and π_k = (Σ_i p_ik + a) / (queries + way · a).

    Attributes:
        gamma: How far the prior is believed: 0 is soft k-means, 1 counts the classes fully.
        sharpness: The factor t.
        pseudo_count: The number a of queries that every class is believed to have beforehand.
    """

    gamma: Annotated[float, between(0, 1)] = 0.5
    sharpness: Annotated[float, above(0, 1e4)] = 10.0
    pseudo_count: Annotated[float, above(0, 1e6)] = 1.0
    iterations: Annotated[int, between(1, 10_000)] = 20
    center: Center = "queries"

    name: ClassVar[str] = "em"
    together: ClassVar[bool] = True
    temperature: ClassVar[float | None] = 1.0

    def from_products(self, products: Products) -> Float[Tensor, "*episodes queries way"]:
        """See `ProductHead.from_products`."""
        unit, way = centered(products.unit(), self.center), products.way
        queries = unit.inner.shape[-1] - unit.support
        members = unit.members.expand(*unit.inner.shape[:-2], -1, -1)
        shares = unit.inner.new_zeros(*unit.inner.shape[:-2], queries, way)
        prior = unit.inner.new_full((*unit.inner.shape[:-2], 1, way), 1 / way)
        for step in range(self.iterations + 1):
            weights = torch.cat((members, shares), dim=-2)
            weights = weights / weights.sum(dim=-2, keepdim=True)
            distances = squared_distances(unit, weights)
            logits = self.gamma * prior.log() - self.sharpness / 2 * distances
            if step < self.iterations:
                shares = logits.softmax(dim=-1)
                counts = shares.sum(dim=-2, keepdim=True)
                prior = (counts + self.pseudo_count) / (queries + way * self.pseudo_count)
        return logits


def squared_distances(
    products: Products, weights: Float[Tensor, "*episodes images way"]
) -> Float[Tensor, "*episodes queries way"]:
    """‖query − Σ weight · image‖² for every class."""
    across = products.inner @ weights
    means = (weights * across).sum(dim=-2)
    return (
        products.squares[..., products.support :, None] - 2 * across[..., products.support :, :] + means[..., None, :]
    )
