"""What every head is: from the support images of an episode and their labels to scores of the query images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from cplsr.declared import Declared


@final
@dataclass(frozen=True, eq=False)
class Task:
    """What a head answers: an episode, or several with the same labels.

    Attributes:
        support: Embeddings of the labeled images.
        labels: The class of each, 0 to way − 1; the classes may have different numbers of images.
        queries: Embeddings of the images to answer.
        way: The number of classes.
    """

    support: Float[Tensor, "*episodes support dim"]
    labels: Int[Tensor, "support"]
    queries: Float[Tensor, "*episodes queries dim"]
    way: int


class Head(Declared, ABC):
    """A way to answer episodes; its options are the fields of the dataclass.

    Attributes:
        together: Whether the answer to a query depends on the other queries.
        linear: Whether scores are a linear function of the query, scaled to length one, plus a constant.
        temperature: Factor that the scores hold already before the softmax; `None` where they are no logits.
    """

    name: ClassVar[str]
    together: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    temperature: ClassVar[float | None] = None

    @property
    def title(self) -> str:
        """Its name, and the options that are not the defaults: `ridge penalty=1`."""
        usual, own = vars(type(self)()), vars(self)
        changed = {name: value for name, value in own.items() if value != usual[name]}
        options = (
            f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in changed.items()
        )
        return " ".join((self.name, *options))

    @abstractmethod
    def answer(self, task: Task) -> Float[Tensor, "*episodes queries way"]:
        """Score every query for every class: the highest is the answer, the first of equals."""

    def scores(
        self,
        support: Float[Tensor, "*episodes support dim"],
        labels: Int[Tensor, "support"],
        queries: Float[Tensor, "*episodes queries dim"],
        way: int,
    ) -> Float[Tensor, "*episodes queries way"]:
        """Score every query for every class; see `Task`."""
        return self.answer(Task(support, labels, queries, way))

    def description(self) -> dict[str, Any]:
        """The head's name and its options, as `make_head` takes them."""
        return {"name": self.name, **vars(self)}

    def with_parts(self, parts: int) -> Head:
        """The same head for embeddings of so many equal parts, where it matters to it."""
        return self


@final
@dataclass(frozen=True, eq=False)
class Products:
    """Inner products of the images of a task: its support images first, then its queries.

    Attributes:
        inner: Products of all images with the support images; with all images where the queries are seen together.
        squares: Squared lengths of all images.
        labels: The class of each support image.
        way: The number of classes.
        dim: Length of the embeddings.
    """

    inner: Float[Tensor, "*episodes images columns"]
    squares: Float[Tensor, "*episodes images"]
    labels: Int[Tensor, "support"]
    way: int
    dim: int

    @classmethod
    def of(cls, task: Task, *, together: bool) -> Products:
        """The products of given embeddings."""
        images = torch.cat((task.support, task.queries), dim=-2)
        inner = images @ (images if together else task.support).transpose(-1, -2)
        return cls(inner, images.square().sum(dim=-1), task.labels, task.way, images.shape[-1])

    def double(self) -> Products:
        """The same in double precision."""
        return replace(self, inner=self.inner.double(), squares=self.squares.double())

    def unit(self) -> Products:
        """The products of the same images scaled to length one; a zero vector stays zero."""
        inverse = inverse_root(self.squares)
        columns = self.inner.shape[-1]
        inner = self.inner * inverse[..., None] * inverse[..., None, :columns]
        return replace(self, inner=inner, squares=(self.squares > 0).to(inner.dtype))

    @property
    def support(self) -> int:
        """How many support images there are."""
        return len(self.labels)

    @property
    def of_support(self) -> Float[Tensor, "*episodes support columns"]:
        """The rows of the support images."""
        return self.inner[..., : self.support, :]

    @property
    def of_queries(self) -> Float[Tensor, "*episodes queries columns"]:
        """The rows of the queries."""
        return self.inner[..., self.support :, :]

    @property
    def members(self) -> Float[Tensor, "support way"]:
        """1 where a support image is of a class."""
        return one_hot(self.labels, self.way, self.inner)

    @property
    def averaging(self) -> Float[Tensor, "support way"]:
        """The weights of the support images in the means of their classes."""
        return self.members / self.members.sum(dim=0).clamp(min=1)


class ProductHead(Head):
    """A head that needs nothing of the embeddings but their inner products.

    So it does not matter how many numbers an embedding has, nor along which axes it is written.
    """

    @abstractmethod
    def from_products(self, products: Products) -> Float[Tensor, "*episodes queries way"]:
        """The scores, given the products instead of the embeddings."""

    def answer(self, task: Task) -> Float[Tensor, "*episodes queries way"]:
        """See `Head.answer`."""
        return self.from_products(Products.of(task, together=self.together))


def inverse_root(squares: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """1 / √s, and 0 where s is not above 0."""
    return torch.where(squares > 0, squares, torch.inf).rsqrt()


def one_hot(labels: Int[Tensor, "*images"], way: int, like: Tensor) -> Float[Tensor, "*images way"]:
    """1 where an image is of a class, in the number format of `like`."""
    return torch.nn.functional.one_hot(labels.long(), way).to(like.dtype)


def cosines_with_means(
    products: Products, weights: Float[Tensor, "*#episodes columns way"]
) -> Float[Tensor, "*episodes images way"]:
    """Compute cos(image, Σ weight · image) for every class; 0 where either of the two is the zero vector.

    The weights are of the images that the columns of the products stand for.
    """
    columns = weights.shape[-2]
    means = (weights * (products.inner[..., :columns, :] @ weights)).sum(dim=-2)
    return products.inner @ weights * inverse_root(means)[..., None, :] * inverse_root(products.squares)[..., None]
