"""How far an adapter moved the embeddings of a domain from where the frozen backbone has them."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from cplsr.records.analysis import Drift


def drift(before: Float[ndarray, "images dim"], after: Float[ndarray, "images dim"]) -> Drift:
    """From the same images' embeddings before and after."""
    before, after = before.astype(np.float64), after.astype(np.float64)
    lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    cosines = (before * after).sum(axis=1) / np.where(lengths > 0, lengths, 1.0)
    spread = float(np.sqrt(before.var(axis=0).sum()))
    moved = float(np.linalg.norm(after.mean(axis=0) - before.mean(axis=0)))
    shift = moved / spread if spread > 0 else (float("inf") if moved > 0 else 0.0)
    return Drift(float(cosines.mean()), shift)
