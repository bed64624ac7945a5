"""BD-CSPN: queries shifted onto the support set, prototypes rectified by the queries assigned to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from cplsr.episodes.heads.centered import shifted, support_means
from cplsr.episodes.heads.head import ProductHead, Products, Task, cosines_with_means, one_hot
from cplsr.episodes.prototypes import normalize

SHARPNESS = 10.0
"""Factor on the cosines in the weights of a class's members, and in the scores."""


@final
@dataclass(frozen=True)
class BdCspn(ProductHead):
    """Bias diminishing, cosine similarity prototypes (Liu, Song and Qin, 2020), on embeddings of length one.

    The queries are shifted by mean(support) − mean(queries) and assigned by cosine; a class's prototype becomes the
    mean of its support images and of the queries assigned to it, weighted by softmax(10 · cos). A class to which no
    query was assigned keeps its prototype.
    """

    name: ClassVar[str] = "bd_cspn"
    together: ClassVar[bool] = True
    temperature: ClassVar[float | None] = SHARPNESS

    def from_products(self, products: Products) -> Float[Tensor, "*episodes queries way"]:
        """See `ProductHead.from_products`."""
        moved = _queries_on_support(products.unit())
        return SHARPNESS * cosines_with_means(moved, _rectified_weights(moved))[..., moved.support :, :]


def rectified(task: Task) -> tuple[Float[Tensor, "dim"], Float[Tensor, "way dim"]]:
    """What BD-CSPN finds in the embeddings of one episode, to answer further queries with.

    Returns:
        What is added to a query of length one, and the prototypes that its cosines are taken with.
    """
    support, queries = normalize(task.support), normalize(task.queries)
    shift = support.mean(dim=0) - queries.mean(dim=0)
    moved = torch.cat((support, queries + shift))
    weights = _rectified_weights(_queries_on_support(Products.of(task, together=True).unit()))
    return shift, weights.T @ moved


def _rectified_weights(moved: Products) -> Float[Tensor, "*episodes images way"]:
    """The weights of all images in the prototypes: each class's support images and the queries assigned to it."""
    means = support_means(moved).expand(*moved.inner.shape[:-1], moved.way)
    cosines = cosines_with_means(moved, means)
    assigned = one_hot(cosines[..., moved.support :, :].argmax(dim=-1), moved.way, means)
    members = moved.members.expand(*assigned.shape[:-2], -1, -1)
    weights = torch.cat((members, assigned), dim=-2) * (SHARPNESS * cosines).softmax(dim=-1)
    weights = weights / weights.sum(dim=-2, keepdim=True)
    asked = (assigned.sum(dim=-2, keepdim=True) > 0).expand_as(weights)
    return torch.where(asked, weights, means)


def _queries_on_support(products: Products) -> Products:
    """Products after mean(support) − mean(queries) was added to every query."""
    images, support = products.inner.shape[-1], products.support
    shifts = products.inner.new_zeros(images, images)
    shifts[support:, :support] = 1 / support
    shifts[support:, support:] = -1 / (images - support)
    return shifted(products, shifts)
