"""An end to waiting: for tests of things that must not wait for ever."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def not_for_ever(seconds: float = 60.0) -> Iterator[None]:
    """Fail if the block still waits after so long; on posix, where signals interrupt a system call."""

    def give_up(*_: Any) -> None:
        raise AssertionError(f"still waiting after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
