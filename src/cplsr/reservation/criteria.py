"""Which candidates are worth keeping: unlike each other (Eq. 9-11) and unlike the base classes (Eq. 12)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float64
from torch import Tensor

from cplsr.errors import InputError
from cplsr.reservation.statistics import ClassGaussians
from cplsr.reservation.symmetric import log_determinant
from cplsr.settings.training import NovelSimilarity


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
