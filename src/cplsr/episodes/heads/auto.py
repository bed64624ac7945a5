"""Ridge regression that finds out how deep to read, and its penalty, by leaving out each support image in turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, ClassVar, Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from cplsr.declared import between
from cplsr.episodes.heads.head import Head, Task, one_hot
from cplsr.episodes.heads.ridge import TEMPERATURE, leave_one_out_scores, penalized_factor
from cplsr.episodes.prototypes import normalize

PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0)
CLEAR = 2.0
"""A reading other than the usual one is taken from this many standard errors of the difference on."""


@final
@dataclass(frozen=True)
class Reading:
    """What of an embedding a ridge head sees, and its penalty.

    Attributes:
        decay: How much a block counts, compared with the block above it: 0 is the last block alone, 1 all blocks alike;
            `None` is the class token of the last block alone, the paper's embedding.
        penalty: The weight λ of the ridge head.
    """

    decay: float | None = 0.6
    penalty: float = 0.03

    def weights(self, parts: int) -> Float[Tensor, "parts"]:
        """The share of each part of an embedding in the inner products; they add up to 1.

        Args:
            parts: Class token and patch mean of each block in turn, as `depth` pooling gives them; or 1.
        """
        if parts == 1:
            return torch.ones(1, dtype=torch.float64)
        if self.decay is None:
            return one_hot(torch.tensor([parts - 2]), parts, torch.ones((), dtype=torch.float64))[0]
        weights = torch.tensor(self.decay, dtype=torch.float64) ** torch.arange(parts // 2 - 1, -1, -1)
        return (weights / (2 * weights.sum())).repeat_interleave(2)


USUAL = Reading()
"""Taken with one image per class, and where nothing else is clearly better."""

READINGS = (USUAL, *(Reading(*choice) for choice in product((None, 0.0, 0.4, 0.6, 0.8, 1.0), PENALTIES)))


@final
@dataclass(frozen=True)
class Auto(Head):
    """The ridge head on the reading that the support images like best.

    Attributes:
        parts: Of how many equal parts an embedding consists; evaluation and the classifier fill it in.
        decay: That of all readings; `auto` chooses it.
    """

    parts: Annotated[int, between(1, 10_000)] = 1
    decay: Annotated[float, between(0, 1)] | Literal["auto"] = "auto"

    name: ClassVar[str] = "auto"
    temperature: ClassVar[float | None] = TEMPERATURE

    @property
    def title(self) -> str:
        """See `Head.title`; the number of parts is no option."""
        return self.name if self.decay == "auto" else f"{self.name} decay={self.decay:g}"

    def with_parts(self, parts: int) -> Head:
        """See `Head.with_parts`."""
        return replace(self, parts=parts)

    def readings(self) -> tuple[Reading, ...]:
        """All readings to choose from, the usual one first."""
        if self.decay != "auto":
            return tuple(Reading(self.decay, penalty) for penalty in (USUAL.penalty, *PENALTIES))
        return READINGS if self.parts > 1 else tuple(Reading(None, p) for p in (USUAL.penalty, *PENALTIES))

    def answer(self, task: Task) -> Float[Tensor, "*episodes queries way"]:
        """See `Head.answer`."""
        inner = part_products(torch.cat((task.support, task.queries), dim=-2), task.support, self.parts)
        count, readings = len(task.labels), self.readings()
        chosen = choose(left_out_errors(inner[..., :count, :], task.labels, task.way, readings), task.labels)
        weights = torch.stack([reading.weights(self.parts) for reading in readings]).to(inner)[chosen]
        penalties = torch.tensor([reading.penalty for reading in readings]).to(inner)[chosen]
        products = (weights[..., None, None] * inner).sum(dim=-3)
        factor = penalized_factor(products[..., :count, :], penalties[..., None, None])
        truth = one_hot(task.labels, task.way, inner)
        return TEMPERATURE * products[..., count:, :] @ torch.cholesky_solve(truth, factor)


def part_products(
    images: Float[Tensor, "*episodes images dim"], others: Float[Tensor, "*episodes others dim"], parts: int
) -> Float[Tensor, "*episodes parts images others"]:
    """Cosines of images with others, for each part of the embeddings."""
    rows, columns = (normalize(x.unflatten(-1, (parts, -1))).transpose(-2, -3) for x in (images, others))
    return rows @ columns.transpose(-1, -2)


def left_out_errors(
    inner: Float[Tensor, "*episodes parts support support"],
    labels: Int[Tensor, "support"],
    way: int,
    readings: tuple[Reading, ...],
) -> Float[Tensor, "*episodes readings support"]:
    """Squared errors of the ridge head at each support image when it was left out, for each reading."""
    weights = torch.stack([reading.weights(inner.shape[-3]) for reading in readings]).to(inner)
    penalties = torch.tensor([reading.penalty for reading in readings]).to(inner)[:, None, None]
    products = (weights @ inner.flatten(-2)).unflatten(-1, inner.shape[-2:])
    left_out = leave_one_out_scores(products, labels, way, penalties)
    return (left_out - one_hot(labels, way, inner)).square().sum(dim=-1)


def choose(
    errors: Float[Tensor, "*episodes readings support"], labels: Int[Tensor, "support"]
) -> Int[Tensor, "*episodes"]:
    """The number of the reading with the least error, if it is clearly better than the first; else 0.

    Clear is a mean difference of two standard errors over the images. Images whose class has no other are not asked.
    """
    asked = labels.bincount()[labels] > 1
    if int(asked.sum()) < 2:
        return torch.zeros(errors.shape[:-2], dtype=torch.int64, device=errors.device)
    errors = errors[..., asked]
    best = errors.mean(dim=-1).argmin(dim=-1)
    least = errors.gather(-2, best[..., None, None].expand(*best.shape, 1, errors.shape[-1]))[..., 0, :]
    gain = errors[..., 0, :] - least
    clear = gain.mean(dim=-1) >= CLEAR * gain.std(dim=-1) / gain.shape[-1] ** 0.5
    return torch.where(clear, best, 0)
