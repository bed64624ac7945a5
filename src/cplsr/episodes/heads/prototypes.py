"""The paper's head: cosines with the class means of the support embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from jaxtyping import Float
from torch import Tensor

from cplsr.episodes.heads.head import ProductHead, Products, cosines_with_means
from cplsr.episodes.prototypes import TEMPERATURE
from cplsr.settings.episodes import PrototypeKind


@final
@dataclass(frozen=True)
class Prototypes(ProductHead):
    """20 · cos(z, p_k), where p_k is the mean of a class's embeddings.

    Attributes:
        kind: Mean of the embeddings as they are, or scaled to length one before.
    """

    kind: PrototypeKind = "mean"

    name: ClassVar[str] = "prototypes"
    linear: ClassVar[bool] = True
    temperature: ClassVar[float | None] = TEMPERATURE

    def from_products(self, products: Products) -> Float[Tensor, "*episodes queries way"]:
        """See `ProductHead.from_products`."""
        if self.kind == "mean_of_normalized":
            products = products.unit()
        return TEMPERATURE * cosines_with_means(products, products.averaging)[..., products.support :, :]
