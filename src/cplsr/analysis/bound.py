"""The terms of the generalization bound (Eq. 14-17), measured on embeddings.

Everything is on embeddings of length one, ψ̃ = ψ/‖ψ‖, with population moments and all classes of equal weight:
μ_c and Σ_c of class c, μ the mean of the μ_c, Σ their covariance (between classes), Σ_τ the mean of the Σ_c (within).
Only traces of the covariances occur, so no covariance matrix is ever formed. The term EV of the supplement, the spread
of the norms within classes, is zero for embeddings of length one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64, Int
from numpy import ndarray

from cplsr.episodes.prototypes import unit
from cplsr.errors import InputError
from cplsr.records.analysis import BoundTerms

Vectors = Float[ndarray, "images dim"]
Labels = Int[ndarray, "images"]

NOT_ESTIMATED = (
    "Of the bound (Eq. 14), the error λ of the ideal joint hypothesis and the sample-size term are not estimated: "
    "λ needs the best hypothesis for both domains at once, and the other the VC dimension of a transformer. "
    "The figures are terms of the bound, not the bound."
)

PROXY_IMAGES = 2000
"""At most this many images of each domain take part in the proxy distance."""

PROXY_FOLDS = 5


@dataclass(frozen=True, eq=False)
class UnitMoments:
    """Mean μ_c and tr Σ_c of every class, of embeddings scaled to length one; classes in ascending order of label."""

    means: Float64[ndarray, "classes dim"]
    traces: Float64[ndarray, "classes"]


def bound_terms(moments: UnitMoments, *, shot: int, way: int) -> BoundTerms:
    """All terms that embeddings of one domain determine."""
    if shot < 1:
        raise InputError(f"shot {shot} was given: a prototype needs at least 1 image")
    v_tr, v_wit, ed2 = trace_variance(moments, shot), within_variance(moments, shot), distance_term(moments)
    between = between_trace(moments)
    return BoundTerms(
        V_tr=v_tr,
        V_wit=v_wit,
        Ed2=ed2,
        base_term=base_term(between, v_tr + v_wit + ed2, way=way),
        tr_sigma=between,
        tr_sigma_tau=within_trace(moments),
    )


def unit_length(vectors: Vectors) -> Float64[ndarray, "images dim"]:
    """ψ̃ = ψ/‖ψ‖ in float64; an embedding of zeros has no direction and is refused."""
    if not (np.isfinite(vectors).all() and vectors.any(axis=1).all()):
        raise InputError("an embedding is all zeros or not finite, so it cannot be scaled to length one: leave it out")
    return unit(vectors.astype(np.float64))


def unit_moments(vectors: Vectors, labels: Labels) -> UnitMoments:
    """μ_c and tr Σ_c of every class that has images.

    tr Σ_c is the mean of ‖ψ̃ − μ_c‖², which for unit vectors is 1 − ‖μ_c‖² without its cancellation.
    """
    scaled = unit_length(vectors)
    members = [scaled[labels == label] for label in np.unique(labels)]
    if len(members) < 2:
        raise InputError(f"embeddings of {len(members)} classes were given: distances between classes need at least 2")
    means = np.stack([rows.mean(axis=0) for rows in members])
    traces = [np.square(rows - mean).sum(axis=1).mean() for rows, mean in zip(members, means, strict=True)]
    return UnitMoments(means, np.array(traces))


def between_trace(moments: UnitMoments) -> float:
    """tr Σ = mean ‖μ_c − μ‖² = mean ‖μ_c‖² − ‖μ‖²."""
    centered = moments.means - moments.means.mean(axis=0)
    return float(np.square(centered).sum(axis=1).mean())


def within_trace(moments: UnitMoments) -> float:
    """tr Σ_τ, the mean of the tr Σ_c."""
    return float(moments.traces.mean())


def within_between(moments: UnitMoments) -> float:
    """tr Σ_τ / tr Σ: how tight classes are compared with how far apart they lie; smaller is better separated.

    Infinite where all class means coincide.
    """
    between = between_trace(moments)
    return within_trace(moments) / between if between > 0 else float("inf")


def trace_variance(moments: UnitMoments, shot: int) -> float:
    """V_tr = (4/K + 2/K²) Var_c[tr Σ_c] (Eq. 15)."""
    return float((4 / shot + 2 / shot**2) * moments.traces.var())


def within_variance(moments: UnitMoments, shot: int) -> float:
    """V_wit = (8/K) tr Σ_τ (tr Σ + μᵀμ) + 4 (tr Σ + μᵀμ)² + 4 E_{y≠c}[tr Σ_y ‖μ_y − μ_c‖²] (Eq. 16)."""
    size = float(np.square(moments.means).sum(axis=1).mean())  # tr Σ + μᵀμ is the mean of the ‖μ_c‖²
    pairs = _mean_over_pairs(moments.traces[:, None] * _squared_distances(moments.means))
    return 8 / shot * within_trace(moments) * size + 4 * size**2 + 4 * pairs


def distance_term(moments: UnitMoments) -> float:
    """Ed² = E_{y≠c} ‖μ_y − μ_c‖⁴ (Eq. 17)."""
    return _mean_over_pairs(np.square(_squared_distances(moments.means)))


def base_term(between: float, denominator: float, *, way: int) -> float:
    """(N − 1)(1 − 4 (tr Σ)² / (V_tr + V_wit + Ed²)): the bound on the risk on the domain itself.

    At 1 or above it is vacuous, a risk being at most 1; it is given all the same, because it can be compared.
    """
    if way < 2:
        raise InputError(f"way {way} was given: a classification needs at least 2 classes")
    gain = 4 * between**2 / denominator if denominator > 0 else 0.0
    return (way - 1) * (1 - gain)


def proxy_distance(
    base: Float[ndarray, "base_images dim"],
    target: Float[ndarray, "target_images dim"],
    *,
    limit: int = PROXY_IMAGES,
    seed: int = 0,
) -> float:
    """2 (1 − 2 err) with err the cross-validated error of a linear classifier that tells two domains apart.

    It stands in for the H∆H divergence of Eq. 14: 0 where the domains cannot be told apart (or worse than by chance),
    2 where they always can. Both sides give the same number of images, at most `limit`, drawn by `seed`, so that
    guessing the larger domain is no way to a small error. One factor scales all dimensions alike, which keeps the
    result independent of rotations.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    count = min(limit, len(base), len(target))
    if count < PROXY_FOLDS:
        raise InputError(
            f"the distance between two domains in {PROXY_FOLDS} folds needs {PROXY_FOLDS} images of each, not {count}"
        )
    generator = np.random.default_rng(seed)
    sides = [unit_length(side)[generator.choice(len(side), count, replace=False)] for side in (base, target)]
    pooled = np.concatenate(sides)
    pooled -= pooled.mean(axis=0)
    pooled /= np.sqrt(np.square(pooled).mean()) or 1.0
    domain = np.repeat([0, 1], count)
    split = StratifiedKFold(PROXY_FOLDS, shuffle=True, random_state=seed)
    guessed = cross_val_predict(LogisticRegression(max_iter=1000), pooled, domain, cv=split)
    return max(0.0, 2 * (1 - 2 * float((guessed != domain).mean())))


def _squared_distances(means: Float64[ndarray, "classes dim"]) -> Float64[ndarray, "classes classes"]:
    """‖μ_y − μ_c‖² of all pairs, by subtraction: nearby means keep their digits."""
    return np.stack([np.square(means - mean).sum(axis=1) for mean in means])


def _mean_over_pairs(values: Float64[ndarray, "classes classes"]) -> float:
    """E_{y≠c}: mean over the ordered pairs of two different classes; the diagonal must be zero."""
    classes = len(values)
    return float(values.sum() / (classes * (classes - 1)))
