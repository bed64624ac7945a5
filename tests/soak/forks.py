"""Commands run in a copy of this process: everything is imported already, and whatever happens happens to the copy."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from cplsr.cli import main

MEMORY = 3 << 30
"""Bytes that a command may take beyond what this process has."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, or minus the signal that ended it; what it printed."""

    code: int
    out: str
    err: str


def run(
    words: Sequence[str],
    folder: Path,
    *,
    seconds: int = 60,
    kill_after: float | None = None,
    first: Callable[[], object] = lambda: None,
) -> Ended:
    """`cplsr words` in `folder`, with a cache of its own there; after `seconds` it counts as hanging (SIGALRM).

    kill_after: seconds until it is killed with SIGKILL. first: called in the copy before the command.
    """
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _become(words, folder, seconds, first)
    if kill_after is not None:
        end = time.monotonic() + kill_after
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return _ended(status, folder)
            time.sleep(0.002)
        os.kill(child, signal.SIGKILL)
    return _ended(os.waitpid(child, 0)[1], folder)


def _ended(status: int, folder: Path) -> Ended:
    texts = [(folder / f".{name}").read_text(encoding="utf-8", errors="replace") for name in ("out", "err")]
    return Ended(os.waitstatus_to_exitcode(status), *texts)


def _become(words: Sequence[str], folder: Path, seconds: int, first: Callable[[], object]) -> NoReturn:
    code = 1
    try:
        os.chdir(folder)
        os.environ["CPLSR_CACHE"] = str(folder / "cache")
        for number, name in ((1, ".out"), (2, ".err")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="surrogateescape")
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace")
        first()
        code = main(words)
        sys.stdout.flush()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
