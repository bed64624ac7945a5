"""Files and folders that appear whole or not at all, notice damage, and have one writer at a time.

They are written beside their place, then renamed into it. What keeps one from being written (a full disk, a folder
without permission) is one sentence, `UnwritableError`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from cplsr.errors import InputError

PARTIAL = ".partial"
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ADVICE = {
    **dict.fromkeys(FULL, "free some space, or give another place, and run the same command again"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "give a place that you may write to"),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "a file stands where a folder is wanted, so give another place"),
    errno.EISDIR: "a folder stands where a file is wanted, so give another name",
    errno.ENAMETOOLONG: "give a shorter name",
}


class UnwritableError(InputError):
    """A file or folder that cannot be written; `reason` is why, in the system's words."""

    def __init__(self, path: Path | str, number: int) -> None:
        self.number, self.reason = number, os.strerror(number)
        super().__init__(f"{path} cannot be written ({self.reason}): {_ADVICE.get(number, 'give another place')}")


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Turn the system's errors while `path` is written into an `UnwritableError` that names it."""
    path = Path(path)
    try:
        yield
    except Exception as error:
        number = _system_error(error, path)
        if number is None:
            raise
        raise UnwritableError(path, number) from error


def _system_error(error: BaseException | None, path: Path) -> int | None:
    """Number of the system's error behind an exception of whatever library was writing; `None` for other exceptions."""
    while error is not None:
        if isinstance(error, UnwritableError):
            return error.number
        if isinstance(error, OSError) and error.errno is not None:
            named = Path(os.fsdecode(error.filename or path))
            ours = path.is_relative_to(named) or any(part.endswith(PARTIAL) for part in named.parts)
            return error.errno if ours else None  # else it is about what is read in order to be written here
        if type(error).__name__ == "SafetensorError" and (match := re.search(r"\(os error (\d+)\)", str(error))):
            return int(match[1])
        error = error.__context__
    return None


def check_writable(path: Path | str) -> None:
    """Check that `path` could be written, before hours of work and without making anything.

    Raises:
        UnwritableError: it could not.
    """
    path = Path(path)
    with writing(path):
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        if not folder.is_dir():
            raise UnwritableError(path, errno.ENOTDIR)
        if not os.access(folder, os.W_OK | os.X_OK):
            read_only = hasattr(os, "statvfs") and os.statvfs(folder).f_flag & os.ST_RDONLY
            raise UnwritableError(path, errno.EROFS if read_only else errno.EACCES)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}{PARTIAL}")


@contextmanager
def new_file(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file for writing that appears at `path` only when the block ends without an error.

    Raises:
        UnwritableError: the disk is full, or the folder may not be written to.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with new_file(f"{folder}/a.txt") as stream:
        ...         _ = stream.write("all or nothing")
        ...     Path(f"{folder}/a.txt").read_text()
        'all or nothing'
    """
    path = Path(path)
    partial = _beside(path)
    encoding = None if "b" in mode else "utf-8"
    newline = None if "b" in mode else ""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open(mode, encoding=encoding, newline=newline) as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(path)
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path | str) -> Iterator[Path]:
    """Give an empty folder to fill; it appears at `path` only when the block ends without an error.

    An older folder at `path` is moved aside first and removed last, so that a reader meets the old one, the new one,
    or for an instant neither, but never a mixture.
    """
    path = Path(path)
    partial = _beside(path)
    old = None
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
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


def remove_leftovers(folder: Path) -> None:
    """Remove the files and folders that killed processes left half-written in a folder that nobody else writes to."""
    for leftover in folder.glob(f".*{PARTIAL}"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def access_like_folder(path: Path | str) -> None:
    """Let whoever may read a folder read this file in it: safetensors writes files that only their owner can open."""
    path = Path(path)
    path.chmod(path.parent.stat().st_mode & 0o666)


def write_file(path: Path | str, content: str | bytes) -> None:
    """Write a text or bytes, whole or not at all."""
    with new_file(path, "wb" if isinstance(content, bytes) else "w") as stream:
        stream.write(content)


def write_json(path: Path | str, content: Any, indent: int | None = 2) -> None:
    """Write `content` as JSON, whole or not at all; no indent makes it short. Not-a-number is refused, not written."""
    separators = None if indent else (",", ":")
    text = json.dumps(content, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False)
    write_file(path, text + "\n")


def sha256_of(path: Path) -> str:
    """Checksum of a file's content."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_sealed(path: Path | str, content: Any) -> None:
    """Write `content` as JSON with a checksum over all of it, whole or not at all."""
    write_file(path, f"{sealed(content)}\n")


def sealed(content: Any) -> str:
    """Write `content` as JSON text with a checksum over all of it."""
    text = json.dumps(content, allow_nan=False)  # escapes, so that names of files that are no text pass too
    return f'{{"sha256": "{hashlib.sha256(text.encode()).hexdigest()}", "content": {text}}}'


def read_sealed(path: Path | str) -> Any:
    """Read what `write_sealed` wrote; raises `ValueError` where it is anything else, `OSError` where it is missing."""
    return unsealed(Path(path).read_text(encoding="utf-8"), path)


def unsealed(text: str, path: Path | str) -> Any:
    """Read what `sealed` wrote to the file at `path`; raises `ValueError` where it is anything else."""
    try:
        stored = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"{path} is nested too deeply") from error
    if isinstance(stored, dict) and stored.keys() == {"sha256", "content"}:
        content = json.dumps(stored["content"])
        if hashlib.sha256(content.encode()).hexdigest() == stored["sha256"]:
            return stored["content"]
    raise ValueError(f"{path} has a wrong checksum")


@contextmanager
def only_writer(folder: Path, of: str = "") -> Iterator[None]:
    """Keep every other process out of a folder, or of its one file `of`, for as long as the block runs.

    The system holds the lock, so that it ends with this process, however that ends.
    """
    from filelock import FileLock, Timeout  # 0.1 s that `cplsr --help` does not have

    target, new = folder / of, not folder.exists()
    lock = FileLock(folder / (f".{of}.lock" if of else ".lock"))
    try:
        with writing(target):
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
    except Timeout:
        raise InputError(f"{target} is being written by another process: wait for it, or give another --out") from None
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)  # while it is held: who waits on the old file sees that it is gone
        lock.release()
        if new:
            with suppress(OSError):  # nothing came of it: an empty folder is not left behind
                folder.rmdir()


_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def csv_cell(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would take for a formula.

    Example:
        >>> csv_cell("=1+1"), csv_cell("-1.5"), csv_cell("leaf")
        ("'=1+1", '-1.5', 'leaf')
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def text_of_csv_cell(cell: str) -> str:
    """Return the text that `csv_cell` made a cell of."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
