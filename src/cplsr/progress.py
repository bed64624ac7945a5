"""A progress bar on a terminal, silence everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_shown = ContextVar("_shown", default=True)


@contextmanager
def no_progress() -> Iterator[None]:
    """Show no bars inside the block, which is a part of something that shows its own."""
    token = _shown.set(False)
    try:
        yield
    finally:
        _shown.reset(token)


def progress_bar(total: int | None, description: str, unit: str = "image") -> Any:
    """A tqdm bar (count, rate, time left) that shows itself only when standard error is a terminal."""
    from tqdm import tqdm

    return tqdm(
        total=total,
        desc=description,
        unit=f" {unit}s",
        disable=not _shown.get() or not sys.stderr.isatty(),
        dynamic_ncols=True,
        leave=False,
        smoothing=0.1,
    )
