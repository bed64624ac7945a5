"""Candidate pseudo-classes: random blends of two base classes (Eq. 7-8), and which of them to keep (Eq. 9-12)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from cplsr.errors import InputError
from cplsr.reservation.statistics import ClassGaussians
from cplsr.reservation.symmetric import cholesky_factor, log_determinant
from cplsr.settings.training import NovelSimilarity


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
        return len(self.weight)

    def __getitem__(self, chosen: Int64[Tensor, "chosen"]) -> Candidates:
        """Those with the given numbers, in the given order."""
        return Candidates(self.first[chosen], self.second[chosen], self.weight[chosen], self.means[chosen])


def mix_classes(gaussians: ClassGaussians, count: int, *, generator: torch.Generator) -> Candidates:
    """Draw `count` pseudo-classes, each a blend of two distinct base classes with α ~ U(0, 1) (Eq. 7-8)."""
    if count < 1:
        raise InputError(f"{count} candidates were asked for: give at least 1")
    classes = gaussians.moments.classes
    first = torch.randint(classes, (count,), generator=generator)
    step = torch.randint(1, classes, (count,), generator=generator)
    second = (first + step) % classes
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
    count, dim = candidates.means.shape
    factors = torch.empty(count, dim, dim, dtype=torch.float64).mT
    for number in range(count):
        a, b = int(candidates.first[number]), int(candidates.second[number])
        covariance = mixed_covariance(gaussians, candidates, number)
        factors[number] = cholesky_factor(covariance, f"the covariance mixed from classes {a} and {b}")
    return factors


def novel_novel(
    prototypes: Float64[Tensor, "count dim"], *, similarity: NovelSimilarity = "dot"
) -> Float64[Tensor, "count"]:
    """How similar every candidate's mean is to all others together; small is good (Eq. 9-11).

    S = PPᵀ with its diagonal zeroed, summed by rows. `cosine` brings the rows of P to unit length first.
    """
    if similarity == "cosine":
        lengths = prototypes.norm(dim=1, keepdim=True)
        if not (lengths > 0).all():
            raise InputError("a candidate's mean is exactly zero and has no cosine: use novel_similarity='dot'")
        prototypes = prototypes / lengths
    scores = (prototypes @ prototypes.T).fill_diagonal_(0).sum(1)
    return _finite(scores, "novel-novel")


def base_novel(
    gaussians: ClassGaussians, means: Float64[Tensor, "count dim"], factors: Float64[Tensor, "count dim dim"]
) -> Float64[Tensor, "count"]:
    """ξ, the divergence of all base classes from each candidate, Σ_k KL(X_k ‖ X̃); large is good (Eq. 12).

    `factors` are the Cholesky factors L of the candidates' Σ̃. The sum over the B base classes is taken beforehand: with
    m̃ = μ̃ − center and G = RRᵀ (see `ClassGaussians`),

        ξ = ½ [tr(Σ̃⁻¹G) + B m̃ᵀΣ̃⁻¹m̃ + B ln|Σ̃| − ℓ − B d],

    and the first two terms are the squared norm of L⁻¹[R, √B m̃]: one triangular solve, whatever B is. No inverse is
    formed, so an ill-conditioned Σ̃ costs half the digits that an inverse would.
    """
    count, (classes, dim) = len(means), gaussians.means.shape
    centered = (means - gaussians.center) * math.sqrt(classes)
    right = torch.empty(dim + 1, dim, dtype=torch.float64).mT  # [R, √B m̃], column by column as LAPACK reads it
    right[:, :dim] = gaussians.factor
    solved = torch.empty(count, dtype=torch.float64)
    for number in range(count):
        right[:, dim] = centered[number]
        columns = torch.linalg.solve_triangular(factors[number], right, upper=False).mT.reshape(-1)
        solved[number] = columns @ columns
    scores = (solved + classes * log_determinant(factors) - gaussians.log_determinant - classes * dim) / 2
    return _finite(scores, "base-novel")


def _finite(scores: Tensor, name: str) -> Tensor:
    if not torch.isfinite(scores).all():
        raise InputError(f"a {name} score is not finite: the embeddings are too large for float64, rescale them")
    return scores
