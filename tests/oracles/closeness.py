"""How near two results must be: relative to the largest value of the reference."""

from __future__ import annotations

from torch import Tensor


def relative_error(result: Tensor, reference: Tensor) -> float:
    """max |a − b| / max |b|."""
    return ((result - reference).abs().max() / reference.abs().max()).item()
