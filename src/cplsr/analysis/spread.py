"""How tight classes are compared with how far apart they lie."""

from __future__ import annotations

from cplsr.analysis.bound import UnitMoments, between_trace, within_trace


def within_between(moments: UnitMoments) -> float:
    """tr Σ_within / tr Σ_between of unit-length embeddings, classes of equal weight: smaller is better separated.

    Infinite where all class means coincide.
    """
    between = between_trace(moments)
    return within_trace(moments) / between if between > 0 else float("inf")
