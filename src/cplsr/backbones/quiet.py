"""transformers kept quiet while it loads or writes a model: what matters is checked and said by this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_transformers(*, bars: bool = False) -> Iterator[None]:
    """Keep transformers from reporting heads that are left out on purpose, and without `bars` from showing progress."""
    from transformers.utils import logging

    level, hidden = logging.get_verbosity(), not bars and logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    if hidden:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if hidden:
            logging.enable_progress_bar()
