"""Files and folders that appear whole or not at all, notice damage, and have one writer at a time."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from cplsr.errors import InputError


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.partial")


@contextmanager
def new_file(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file for writing that takes its place at `path` only when the block ends without an error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _beside(path)
    encoding = None if "b" in mode else "utf-8"
    newline = None if "b" in mode else ""
    try:
        with partial.open(mode, encoding=encoding, newline=newline) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path | str) -> Iterator[Path]:
    """Give an empty folder to fill; it takes its place at `path` only when the block ends without an error.

    An older folder at `path` is moved aside first and removed last, so that a reader meets the old one, the new one,
    or for an instant neither, but never a mixture.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _beside(path)
    partial.mkdir()
    old = None
    try:
        yield partial
        if path.exists():
            old = _beside(path)
            path.rename(old)
        partial.rename(path)
    finally:
        if old is not None and not path.exists():
            old.rename(path)
            old = None
        for leftover in (partial, old):
            if leftover is not None:
                shutil.rmtree(leftover, ignore_errors=True)


def access_like_folder(path: Path | str) -> None:
    """Let those read a file who may read its folder: safetensors writes files that only their owner can open."""
    path = Path(path)
    path.chmod(path.parent.stat().st_mode & 0o666)


def write_json(path: Path | str, content: Any, indent: int | None = 2) -> None:
    """Write `content` as JSON, whole or not at all; no indent makes it short. Not-a-number is refused, not written."""
    separators = None if indent else (",", ":")
    text = json.dumps(content, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False)
    with new_file(path) as stream:
        stream.write(text + "\n")


def write_sealed(path: Path | str, content: Any) -> None:
    """Write `content` as JSON with a checksum over all of it, whole or not at all."""
    text = json.dumps(content, allow_nan=False)  # escapes, so that names of files that are no text pass too
    with new_file(path) as stream:
        stream.write(f'{{"sha256": "{hashlib.sha256(text.encode()).hexdigest()}", "content": {text}}}\n')


def read_sealed(path: Path | str) -> Any:
    """Read what `write_sealed` wrote; raises `ValueError` where it is anything else, `OSError` where it is missing."""
    stored = json.loads(Path(path).read_text(encoding="utf-8"))
    if isinstance(stored, dict) and stored.keys() == {"sha256", "content"}:
        text = json.dumps(stored["content"])
        if hashlib.sha256(text.encode()).hexdigest() == stored["sha256"]:
            return stored["content"]
    raise ValueError(f"{path} has a wrong checksum")


@contextmanager
def only_writer(folder: Path, of: str = "") -> Iterator[None]:
    """Keep every other process out of a folder, or of its one file `of`, for as long as the block runs.

    The system holds the lock, so that it ends with this process, however that ends.
    """
    from filelock import FileLock, Timeout  # 0.1 s that `cplsr --help` does not have

    place, new = folder / of, not folder.exists()
    lock = FileLock(folder / (f".{of}.lock" if of else ".lock"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(f"{place} is being written by another process: wait for it, or give another --out") from None
    except OSError as error:
        raise InputError(f"{place} cannot be written ({error.strerror}): give another --out") from error
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)  # while it is held: who waits on the old file sees that it is gone
        lock.release()
        if new:
            with suppress(OSError):  # nothing came of it: an empty folder is not left behind
                folder.rmdir()
