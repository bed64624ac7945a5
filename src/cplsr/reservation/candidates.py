"""Candidate pseudo-classes: random blends of two base classes (Eq. 7-8)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from cplsr.errors import InputError
from cplsr.reservation.statistics import ClassGaussians
from cplsr.reservation.symmetric import cholesky_factor


@dataclass(frozen=True, eq=False)
class Candidates:
    """Pseudo-classes by their recipe: classes a and b, the weight α of a, and the blended mean.

    Covariances are left out on purpose: four fifths of the candidates fall to the novel-novel criterion, which reads
    means alone. `mixed_covariance` makes them from the two parents for those that are left.
    """

    first: Int64[Tensor, "count"]
    second: Int64[Tensor, "count"]
    weight: Float64[Tensor, "count"]
    means: Float64[Tensor, "count dim"]

    def __len__(self) -> int:
        """Number of candidates."""
        return len(self.weight)

    def __getitem__(self, chosen: Int64[Tensor, "chosen"]) -> Candidates:
        """Those with the given numbers, in the given order."""
        return Candidates(self.first[chosen], self.second[chosen], self.weight[chosen], self.means[chosen])


def mix_classes(gaussians: ClassGaussians, count: int, *, generator: torch.Generator) -> Candidates:
    """Draw `count` pseudo-classes, each a blend of two distinct base classes with α ~ U(0, 1) (Eq. 7-8)."""
    if count < 1:
        raise InputError(f"{count} candidates were asked for: give at least 1")
    first = torch.randint(gaussians.classes, (count,), generator=generator)
    step = torch.randint(1, gaussians.classes, (count,), generator=generator)
    second = (first + step) % gaussians.classes
    weight = torch.rand(count, generator=generator, dtype=torch.float64)
    share = weight[:, None]
    means = share * gaussians.means[first] + (1 - share) * gaussians.means[second]
    return Candidates(first, second, weight, means)


def mixed_covariance(gaussians: ClassGaussians, candidates: Candidates, number: int) -> Float64[Tensor, "dim dim"]:
    """Σ̃ = αΣ_a + (1−α)Σ_b (Eq. 8) of one candidate, from the packed scatter matrices of its parents."""
    a, b = int(candidates.first[number]), int(candidates.second[number])
    alpha = float(candidates.weight[number])
    beta = 1 - alpha
    moments = gaussians.moments
    packed = moments.scatter[a] * (alpha * gaussians.scale[a])
    packed.add_(moments.scatter[b], alpha=beta * float(gaussians.scale[b]))
    packed[moments.triangle.diagonal] += alpha * gaussians.shift[a] + beta * gaussians.shift[b]
    return moments.triangle.unpack(packed)


def mixed_factors(gaussians: ClassGaussians, candidates: Candidates) -> Float64[Tensor, "count dim dim"]:
    """The lower Cholesky factor of every candidate's Σ̃: the one factorization that scoring and sampling share."""
    # Column by column in memory, as LAPACK makes and reads them: rows would have to be transposed twice.
    factors = torch.empty(len(candidates), gaussians.dim, gaussians.dim, dtype=torch.float64).mT
    for number in range(len(candidates)):
        a, b = int(candidates.first[number]), int(candidates.second[number])
        covariance = mixed_covariance(gaussians, candidates, number)
        factors[number] = cholesky_factor(covariance, f"the covariance mixed from classes {a} and {b}")
    return factors
