"""Nearest neighbors: the support images with the highest cosines vote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from cplsr.declared import between
from cplsr.episodes.heads.head import ProductHead, Products


@final
@dataclass(frozen=True)
class Knn(ProductHead):
    """Votes of the nearest support images; these are no logits, so no confidence can be made of them.

    A tie between classes goes to the one whose nearest image is nearer: it has up to half a vote more, and no two
    classes have the same. Of equal cosines the image that stands first counts as nearer.

    Attributes:
        neighbors: Most that vote; never more than the smallest class has images, since it could not win them all.
    """

    neighbors: Annotated[int, between(1, 10**6)] = 5

    name: ClassVar[str] = "knn"

    def from_products(self, products: Products) -> Float[Tensor, "*episodes queries way"]:
        """See `ProductHead.from_products`."""
        cosines, labels = products.unit().of_queries, products.labels
        k = min(self.neighbors, int(labels.unique(return_counts=True)[1].min()))
        order = cosines.sort(dim=-1, descending=True, stable=True).indices[..., :k]
        voters = labels.long()[order]
        votes = torch.zeros(*cosines.shape[:-1], products.way, dtype=cosines.dtype)
        votes.scatter_add_(-1, voters, torch.ones_like(voters, dtype=cosines.dtype))
        nearness = torch.arange(k, 0, -1, dtype=cosines.dtype).div(2 * k).expand(voters.shape)
        return votes + torch.zeros_like(votes).scatter_reduce(-1, voters, nearness, "amax")
