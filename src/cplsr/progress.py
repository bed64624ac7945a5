"""A progress bar on a terminal, silence everywhere else."""

from __future__ import annotations

import sys
from typing import Any


def progress_bar(total: int | None, description: str, unit: str = "image") -> Any:
    """A tqdm bar (count, rate, time left) that shows itself only when standard error is a terminal."""
    from tqdm import tqdm

    return tqdm(
        total=total,
        desc=description,
        unit=f" {unit}s",
        disable=not sys.stderr.isatty(),
        dynamic_ncols=True,
        leave=False,
        smoothing=0.1,
    )
