"""Files and folders that appear whole or not at all: written beside their place, then renamed into it."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


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
