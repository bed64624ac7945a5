"""Ridge regression that finds out how deep to read, and its penalty, by leaving out each support image in turn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from cplsr.declared import between
from cplsr.episodes.heads.head import Head, Task, one_hot
from cplsr.episodes.heads.ridge import TEMPERATURE, leave_one_out_scores, penalized_factor
from cplsr.episodes.prototypes import normalize

PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0)
NO_SPREAD = 1e-6
"""Less than this is rounding: images that are all the same."""

CLEAR = 2.0
"""A reading other than the usual one is taken from this many standard errors of the difference on."""


@final
@dataclass(frozen=True)
class Reading:
    """What of an embedding a ridge head sees, and its penalty.

    The spread of a part is how far apart it puts the classes: one minus the mean cosine between support images of
    different classes. A part counts step^(blocks above it) · e^(favor · spread), where step = decay · min(1, r)^tilt
    and r is the spread of the patch means over that of the class tokens, each added up over the upper half of the
    blocks. So the same reading goes by the images: a backbone puts the class tokens of what it knows, photos of
    things, further apart than their patches, and the answer is found in its last blocks; where the patches differ as
    much, in textures and land seen from above, all blocks count alike.

    Attributes:
        decay: How much a block counts, compared with the block above it: 0 is the last block alone, 1 all blocks alike;
            `None` is the class token of the last block alone, the paper's embedding.
        favor: By how much parts that spread the classes out are favored; 0 is not at all.
        penalty: The weight λ of the ridge head.
        tilt: By how much the upper blocks are favored where class tokens differ more than patches; 0 is not at all.
    """

    decay: float | None = 1.0
    favor: float = 2.0
    penalty: float = 0.03
    tilt: float = 2.0

    def weights(self, spreads: Float[Tensor, "*episodes parts"]) -> Float[Tensor, "*episodes parts"]:
        """The share of each part of an embedding in the inner products; they add up to 1.

        Args:
            spreads: Of class token and patch mean of each block in turn, as `depth` pooling gives them; or of a whole.
        """
        parts = spreads.shape[-1]
        if parts == 1:
            return torch.ones_like(spreads)
        if self.decay is None:
            return one_hot(torch.tensor(parts - 2, device=spreads.device), parts, spreads).expand_as(spreads)
        step = self.decay * tokens_over_patches(spreads)[..., None] ** -self.tilt
        above = torch.arange(parts // 2 - 1, -1, -1, dtype=spreads.dtype, device=spreads.device).repeat_interleave(2)
        weights = step**above * torch.exp(self.favor * spreads)
        return weights / weights.sum(dim=-1, keepdim=True)


USUAL = Reading()
"""Where nothing of the images says which is best."""

LAST_TOKEN = Reading(decay=None, favor=0.0, tilt=0.0)
"""The paper's embedding."""

READINGS = tuple(
    replace(reading, penalty=penalty)
    for reading in (LAST_TOKEN, *(Reading(favor=favor, tilt=tilt) for favor in (0.0, 2.0) for tilt in (0.0, 2.0)))
    for penalty in PENALTIES
)


@final
@dataclass(frozen=True)
class Auto(Head):
    """The ridge head on the reading that the support images like best.

    With one image per class, and where nothing else is clearly better, that is the usual one.

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
        decay = None if self.decay == "auto" else self.decay
        return tuple(Reading(decay, 0.0, penalty, 0.0) for penalty in PENALTIES)

    @property
    def usual(self) -> int:
        """The number of the reading to take where no other is clearly better."""
        readings = self.readings()
        return readings.index(USUAL if readings is READINGS else replace(readings[0], penalty=USUAL.penalty))

    def answer(self, task: Task) -> Float[Tensor, "*episodes queries way"]:
        """See `Head.answer`."""
        readings = self.readings()
        of_support, of_queries = (
            part_products(images, task.support, self.parts) for images in (task.support, task.queries)
        )
        weights = weights_of(readings, spreads_of_classes(task.support, task.labels, task.way, self.parts))
        errors = left_out_errors(of_support, task.labels, task.way, readings, weights)
        chosen = choose(errors, task.labels, self.usual)
        own = _of_reading(weights, chosen)[..., None, None]
        penalties = torch.tensor([reading.penalty for reading in readings]).to(own)[chosen]
        factor = penalized_factor((own * of_support).sum(dim=-3), penalties[..., None, None])
        truth = one_hot(task.labels, task.way, own)
        return TEMPERATURE * (own * of_queries).sum(dim=-3) @ torch.cholesky_solve(truth, factor)


def part_products(
    images: Float[Tensor, "*episodes images dim"], others: Float[Tensor, "*episodes others dim"], parts: int
) -> Float[Tensor, "*episodes parts images others"]:
    """Cosines of images with others, for each part of the embeddings; 0 where a part is all zeros.

    The products are scaled, not the embeddings: copies of these take three times as long as all the rest.
    """
    rows, columns = (x.unflatten(-1, (parts, -1)).transpose(-2, -3) for x in (images, others))
    lengths = (torch.linalg.vector_norm(x, dim=-1) for x in (rows, columns))
    of_rows, of_columns = (torch.where(length > 0, length, torch.inf).reciprocal() for length in lengths)
    return rows @ columns.transpose(-1, -2) * of_rows[..., :, None] * of_columns[..., None, :]


def spreads_of_classes(
    support: Float[Tensor, "*episodes support dim"], labels: Int[Tensor, "support"], way: int, parts: int
) -> Float[Tensor, "*episodes parts"]:
    """How far apart each part of the embeddings puts the classes; 1 where there is but one class.

    One minus the mean cosine between support images of different classes. The cosines of all pairs add up to the
    squared length of the sum of the unit vectors, those within a class to that of the class's sum.
    """
    members = one_hot(labels, way, support)
    unit = normalize(support.unflatten(-1, (parts, -1))).transpose(-2, -3)  # (…, parts, support, dim)
    sums = members.T @ unit
    across = sums.sum(dim=-2).square().sum(dim=-1) - sums.square().sum(dim=(-1, -2))
    pairs = len(labels) ** 2 - members.sum(dim=0).square().sum()
    return 1 - across / pairs.clamp(min=1)


def tokens_over_patches(spreads: Float[Tensor, "*episodes parts"]) -> Float[Tensor, "*episodes"]:
    """How many times as far class tokens put the classes apart as patch means do, in the upper half of the blocks.

    At least 1; 1 also where neither tells the classes apart.
    """
    upper = spreads.unflatten(-1, (-1, 2))[..., spreads.shape[-1] // 4 :, :].sum(dim=-2).clamp(min=NO_SPREAD)
    return (upper[..., 0] / upper[..., 1]).clamp(min=1)


def weights_of(
    readings: tuple[Reading, ...], spreads: Float[Tensor, "*episodes parts"]
) -> Float[Tensor, "*episodes readings parts"]:
    """What each reading makes of the parts."""
    return torch.stack([reading.weights(spreads) for reading in readings], dim=-2)


def left_out_errors(
    inner: Float[Tensor, "*episodes parts support support"],
    labels: Int[Tensor, "support"],
    way: int,
    readings: tuple[Reading, ...],
    weights: Float[Tensor, "*episodes readings parts"],
) -> Float[Tensor, "*episodes readings support"]:
    """Squared errors of the ridge head at each support image when it was left out, for each reading."""
    penalties = torch.tensor([reading.penalty for reading in readings]).to(inner)[:, None, None]
    products = (weights @ inner.flatten(-2)).unflatten(-1, inner.shape[-2:])
    left_out = leave_one_out_scores(products, labels, way, penalties)
    return (left_out - one_hot(labels, way, inner)).square().sum(dim=-1)


def choose(
    errors: Float[Tensor, "*episodes readings support"],
    labels: Int[Tensor, "support"],
    usual: int,
) -> Int[Tensor, "*episodes"]:
    """The number of the reading with the least error, if it is clearly better than the usual one; else that.

    Clear is a mean difference of two standard errors over the images. Images whose class has no other are not asked.
    """
    asked = labels.bincount()[labels] > 1
    if int(asked.sum()) < 2:
        return torch.full(errors.shape[:-2], usual, device=errors.device)
    errors = errors[..., asked]
    best = errors.mean(dim=-1).argmin(dim=-1)
    gain = errors[..., usual, :] - _of_reading(errors, best)
    clear = gain.mean(dim=-1) >= CLEAR * gain.std(dim=-1) / gain.shape[-1] ** 0.5
    return torch.where(clear, best, usual)


def _of_reading(
    rows: Float[Tensor, "*episodes readings columns"], numbers: Int[Tensor, "*episodes"]
) -> Float[Tensor, "*episodes columns"]:
    return rows.gather(-2, numbers[..., None, None].expand(*numbers.shape, 1, rows.shape[-1]))[..., 0, :]
