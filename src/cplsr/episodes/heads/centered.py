"""Prototypes after the queries' own mean was taken from all embeddings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from cplsr.episodes.heads.head import ProductHead, Products, cosines_with_means
from cplsr.episodes.prototypes import TEMPERATURE

Center = Literal["queries", "classes"]


@final
@dataclass(frozen=True)
class Centered(ProductHead):
    """Prototypes of embeddings that were scaled to length one, centered, and scaled again.

    Attributes:
        center: The mean of the queries; or the mean over the classes of the queries that prototypes assign to them,
            each query shared out by its probabilities, which stands unequal numbers of queries better.
    """

    center: Center = "queries"

    name: ClassVar[str] = "centered"
    together: ClassVar[bool] = True
    temperature: ClassVar[float | None] = TEMPERATURE

    def from_products(self, products: Products) -> Float[Tensor, "*episodes queries way"]:
        """See `ProductHead.from_products`."""
        return _scores(centered(products.unit(), self.center))


def _scores(cosines: Products) -> Float[Tensor, "*episodes queries way"]:
    """Those of the queries, by prototypes of the support images."""
    return TEMPERATURE * cosines_with_means(cosines, support_means(cosines))[..., cosines.support :, :]


def centered(cosines: Products, center: Center) -> Products:
    """Products of unit embeddings, centered and scaled to length one again."""
    images = cosines.inner.shape[-1]
    weights = cosines.inner.new_full(cosines.squares.shape, 1 / (images - cosines.support))
    weights[..., : cosines.support] = 0
    if center == "classes":
        shares = _scores(cosines).softmax(dim=-1)
        weights[..., cosines.support :] = (shares / shares.sum(dim=-2, keepdim=True)).mean(dim=-1)
    return shifted(cosines, -weights[..., None, :].expand(cosines.inner.shape)).unit()


def shifted(products: Products, shifts: Float[Tensor, "*episodes images images"]) -> Products:
    """Products after a weighted sum of all images, row i of `shifts`, was added to image i."""
    change = torch.eye(shifts.shape[-1], dtype=shifts.dtype) + shifts
    inner = change @ products.inner @ change.transpose(-1, -2)
    return replace(products, inner=inner, squares=inner.diagonal(dim1=-2, dim2=-1).clamp(min=0))


def support_means(products: Products) -> Float[Tensor, "images way"]:
    """The weights of all images in the class means of the support images: a query has none."""
    queries = products.inner.shape[-1] - products.support
    return torch.nn.functional.pad(products.averaging, (0, 0, 0, queries))
