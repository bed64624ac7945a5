"""Moments of every class's embeddings, gathered batch by batch and merged across processes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int, Int64
from torch import Tensor

from cplsr.declared import fit
from cplsr.errors import InputError
from cplsr.reservation.symmetric import Triangle
from cplsr.settings.training import Statistics

NAMES = ("counts", "means", "scatter", "cubes", "fourths")
"""Of the tensors that are the state of `ClassMoments`."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Central moments of one set of embeddings x, with y = x − mean.

    `scatter` = Σ y yᵀ (packed), `cubes` = Σ ‖y‖² y and `fourth` = Σ ‖y‖⁴. The last two are what the Ledoit-Wolf
    intensity needs; central sums lose no digits when the mean is far from zero.
    """

    count: int
    mean: Float64[Tensor, "dim"]
    scatter: Float64[Tensor, "packed"]
    cubes: Float64[Tensor, "dim"]
    fourth: Float64[Tensor, ""]


def measure(embeddings: Float64[Tensor, "images dim"], triangle: Triangle) -> Moments:
    """Moments of embeddings that are all in memory; at least one."""
    mean = embeddings.mean(0)
    centered = embeddings - mean
    squares = centered.square().sum(1)
    return Moments(
        count=len(embeddings),
        mean=mean,
        scatter=triangle.pack(centered.T @ centered),
        cubes=squares @ centered,
        fourth=squares.square().sum(),
    )


def combine(a: Moments, b: Moments, triangle: Triangle) -> Moments:
    """Moments of two disjoint sets together, from their own moments alone.

    Each set is moved to the common mean: with y → y + s and Σ y = 0,
    Σ (y+s)(y+s)ᵀ = M + n s sᵀ, Σ ‖y+s‖²(y+s) = T + tr(M) s + 2 M s + n ‖s‖² s, and
    Σ ‖y+s‖⁴ = Q + 4 T·s + 4 sᵀM s + 2 tr(M) ‖s‖² + n ‖s‖⁴.
    """
    total = a.count + b.count
    gap = b.mean - a.mean
    cubes, fourth = torch.zeros_like(a.cubes), torch.zeros_like(a.fourth)
    for part, shift in ((a, gap * (-b.count / total)), (b, gap * (a.count / total))):
        trace, length = triangle.trace(part.scatter), shift @ shift
        moved = triangle.unpack(part.scatter) @ shift
        cubes += part.cubes + trace * shift + 2 * moved + part.count * length * shift
        fourth += part.fourth + 4 * (part.cubes @ shift) + 4 * (shift @ moved)
        fourth += 2 * trace * length + part.count * length.square()
    return Moments(
        count=total,
        mean=a.mean + gap * (b.count / total),
        scatter=a.scatter + b.scatter + triangle.pack(torch.outer(gap, gap)) * (a.count * b.count / total),
        cubes=cubes,
        fourth=fourth,
    )


class ClassMoments:
    """Moments of `classes` classes in `dim` dimensions: all that is ever remembered of the embeddings.

    `update` takes a batch, `merge` another process's share; both only add, so neither the order of the batches nor
    their division among processes matters beyond rounding. Everything is float64 on the CPU, scatter matrices as
    packed triangles: 0.83 GB for 1404 classes at d = 384. Batches that hold few classes are the quickest.

    `statistics="normalized"` brings every embedding to unit length first.
    """

    def __init__(self, classes: int, dim: int, *, statistics: Statistics = "raw") -> None:
        if classes < 1:
            raise InputError(f"statistics of {classes} classes were asked for: give at least 1")
        self.statistics: Statistics = fit(statistics, Statistics, "statistics")
        self.triangle = Triangle(dim)
        self.counts: Int64[Tensor, "classes"] = torch.zeros(classes, dtype=torch.int64)
        self.means: Float64[Tensor, "classes dim"] = torch.zeros(classes, dim, dtype=torch.float64)
        self.scatter: Float64[Tensor, "classes packed"] = torch.zeros(classes, self.triangle.size, dtype=torch.float64)
        self.cubes: Float64[Tensor, "classes dim"] = torch.zeros(classes, dim, dtype=torch.float64)
        self.fourths: Float64[Tensor, "classes"] = torch.zeros(classes, dtype=torch.float64)

    @property
    def classes(self) -> int:
        """Number of classes, those without an embedding so far included."""
        return len(self.counts)

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return self.triangle.dim

    def update(self, embeddings: Float[Tensor, "images dim"], labels: Int[Tensor, "images"]) -> None:
        """Add a batch: embeddings on any device and in any float format, labels 0, ..., classes − 1."""
        known = self._prepare(embeddings)
        labels = labels.detach().cpu().long()
        if len(labels) != len(known):
            raise InputError(f"{len(labels)} labels were given for {len(known)} embeddings: give one label for each")
        if len(labels) == 0:
            return
        if labels.min() < 0 or labels.max() >= self.classes:
            raise InputError(
                f"labels run from {labels.min()} to {labels.max()}, but these statistics hold {self.classes} classes: "
                f"give labels from 0 to {self.classes - 1}"
            )
        for label in labels.unique().tolist():
            self._add(label, measure(known[labels == label], self.triangle))

    def merge(self, other: ClassMoments) -> None:
        """Add the moments that another process gathered from other images of the same classes."""
        if (other.classes, other.dim, other.statistics) != (self.classes, self.dim, self.statistics):
            raise InputError(
                f"statistics of {other.classes} classes in {other.dim} dimensions ({other.statistics}) cannot be "
                f"merged into {self.classes} classes in {self.dim} dimensions ({self.statistics}): gather both alike"
            )
        if other is self:
            raise InputError("statistics were merged with themselves: every image would count twice")
        for label in other.counts.nonzero().squeeze(1).tolist():
            self._add(label, other.of(label))

    def of(self, label: int) -> Moments:
        """The moments of one class (views, not copies)."""
        count = int(self.counts[label])
        return Moments(count, self.means[label], self.scatter[label], self.cubes[label], self.fourths[label])

    def tensors(self) -> dict[str, Tensor]:
        """The whole state by name, to be stored or sent to another process."""
        return {name: getattr(self, name) for name in NAMES}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], *, statistics: Statistics = "raw") -> ClassMoments:
        """The inverse of `tensors`; the tensors are taken over, not copied, and others among them are left."""
        moments = cls.__new__(cls)
        moments.statistics, moments.triangle = statistics, Triangle(tensors["means"].shape[1])
        for name in NAMES:
            setattr(moments, name, tensors[name])
        return moments

    def _add(self, label: int, part: Moments) -> None:
        if self.counts[label] > 0:
            part = combine(self.of(label), part, self.triangle)
        self.counts[label] = part.count
        self.means[label] = part.mean
        self.scatter[label] = part.scatter
        self.cubes[label] = part.cubes
        self.fourths[label] = part.fourth

    def _prepare(self, embeddings: Tensor) -> Float64[Tensor, "images dim"]:
        if embeddings.shape[1] != self.dim:
            raise InputError(
                f"embeddings have {embeddings.shape[1]} dimensions, but these statistics hold {self.dim}: "
                "use one backbone throughout"
            )
        known = embeddings.detach().cpu().double()
        if not torch.isfinite(known).all():
            raise InputError("embeddings hold nan or inf: check the images and the backbone's number format")
        if self.statistics == "raw":
            return known
        lengths = known.norm(dim=1, keepdim=True)
        if not (lengths > 0).all():
            raise InputError("an embedding is all zeros and cannot be normalized: use statistics='raw' or drop it")
        return known / lengths


def choose_statistics_images(
    labels: Int[Tensor, "images"], limit: int | None, *, generator: torch.Generator
) -> Int64[Tensor, "chosen"]:
    """Indices, in order, of at most `limit` images of every class, chosen at random; of all images without a limit."""
    if limit is None:
        return torch.arange(len(labels))
    if limit < 2:
        raise InputError(f"statistics from {limit} images per class were asked for: a covariance needs at least 2")
    labels = labels.cpu()
    chosen = [torch.empty(0, dtype=torch.int64)]
    for label in labels.unique():
        members = (labels == label).nonzero().squeeze(1)
        chosen.append(members[torch.randperm(len(members), generator=generator)[:limit]])
    return torch.cat(chosen).sort().values
