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

DECAYS = (None, 0.0, 0.4, 0.6, 0.8, 1.0)
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
"""Where nothing is known of the images."""

READINGS = tuple(Reading(*choice) for choice in product(DECAYS, PENALTIES))

LIKENESS = (0.25, 0.3)
USUAL_DECAYS = (0.4, 0.6, 0.8)
"""The usual decay below the first likeness of the classes, between the two, and from the second on: to a backbone that
was trained on photos the classes of other images look alike, and lower blocks tell those apart."""


@final
@dataclass(frozen=True)
class Auto(Head):
    """The ridge head on the reading that the support images like best.

    With one image per class, and where nothing else is clearly better, that is the usual one for classes so much alike.

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
        """All readings to choose from."""
        if self.decay == "auto" and self.parts > 1:
            return READINGS
        return tuple(Reading(None if self.decay == "auto" else self.decay, penalty) for penalty in PENALTIES)

    def usual(self, likeness: Float[Tensor, "*episodes"]) -> Int[Tensor, "*episodes"]:
        """The number of the usual reading, for classes so much alike."""
        readings = self.readings()
        decays = USUAL_DECAYS if readings is READINGS else (readings[0].decay,) * len(USUAL_DECAYS)
        numbers = torch.tensor([readings.index(Reading(decay)) for decay in decays], device=likeness.device)
        return numbers[torch.bucketize(likeness, torch.tensor(LIKENESS).to(likeness), right=True)]

    def answer(self, task: Task) -> Float[Tensor, "*episodes queries way"]:
        """See `Head.answer`."""
        inner = part_products(torch.cat((task.support, task.queries), dim=-2), task.support, self.parts)
        count, readings = len(task.labels), self.readings()
        of_support = inner[..., :count, :]
        errors = left_out_errors(of_support, task.labels, task.way, readings)
        chosen = choose(errors, task.labels, self.usual(likeness_of_classes(of_support, task.labels)))
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


def likeness_of_classes(
    inner: Float[Tensor, "*episodes parts support support"], labels: Int[Tensor, "support"]
) -> Float[Tensor, "*episodes"]:
    """The mean cosine between support images of different classes, by the last class token; 0 of one class."""
    tokens = inner[..., -2 if inner.shape[-3] > 1 else -1, :, :]
    return tokens[..., labels[:, None] != labels].mean(dim=-1).nan_to_num()


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
    errors: Float[Tensor, "*episodes readings support"],
    labels: Int[Tensor, "support"],
    usual: Int[Tensor, "*episodes"],
) -> Int[Tensor, "*episodes"]:
    """The number of the reading with the least error, if it is clearly better than the usual one; else that.

    Clear is a mean difference of two standard errors over the images. Images whose class has no other are not asked.
    """
    asked = labels.bincount()[labels] > 1
    if int(asked.sum()) < 2:
        return usual
    errors = errors[..., asked]
    best = errors.mean(dim=-1).argmin(dim=-1)
    gain = _of_reading(errors, usual) - _of_reading(errors, best)
    clear = gain.mean(dim=-1) >= CLEAR * gain.std(dim=-1) / gain.shape[-1] ** 0.5
    return torch.where(clear, best, usual)


def _of_reading(
    errors: Float[Tensor, "*episodes readings support"], numbers: Int[Tensor, "*episodes"]
) -> Float[Tensor, "*episodes support"]:
    return errors.gather(-2, numbers[..., None, None].expand(*numbers.shape, 1, errors.shape[-1]))[..., 0, :]
