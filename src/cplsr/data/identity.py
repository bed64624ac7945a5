"""What tells one version of an image file from another: its content, read once and then remembered.

A file's hash is kept in the cache folder for as long as its path, size, inode and times of change stay as they were, so
that opening the same files again reads none of them. What is kept can be lost or damaged at any time: it is made again.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import final

from cplsr.data.image_file import require_regular
from cplsr.environment import cache_folder
from cplsr.errors import InputError
from cplsr.files import read_sealed, write_sealed
from cplsr.progress import progress_bar

HASH_BYTES = 16
FRESH_SECONDS = 2.0
"""A file changed this short a time ago may change again without its times telling: its hash is not kept."""


@final
@dataclass
class LookedAt:
    """A file that was looked at: its path as it was given, a hash of its content, and why it cannot be used, if so.

    The hash stays the same while the `version` (size, times, inode) does.
    """

    path: str
    full_path: str
    version: list[int]
    hash: str = ""
    problem: str | None = None

    @property
    def identity(self) -> str:
        """Path as given, size and hash: it stays when a folder is moved or copied and changes when the file does."""
        return f"{self.path}?{self.problem or f'{self.version[0]}-{self.hash}'}"


def look_at_files(root: str, paths: Sequence[str]) -> list[LookedAt]:
    """Look at files under `root`, or under the current folder where it is empty."""
    base = os.path.abspath(root)  # noqa: PTH100 (no Path objects here: there may be a million files)
    looked_at = [_look(path, os.path.join(base, path)) for path in paths]  # noqa: PTH118
    by_folder: dict[str, list[LookedAt]] = defaultdict(list)
    for file in looked_at:
        if file.problem is None:
            by_folder[os.path.dirname(file.full_path)].append(file)  # noqa: PTH120
    with progress_bar(len(paths), "looking at files", unit="file") as bar:
        for folder, files in by_folder.items():
            _find_hashes(folder, files, bar.update)
    return looked_at


def _look(path: str, full_path: str) -> LookedAt:
    try:
        status = os.stat(full_path)  # noqa: PTH116
        require_regular(status)
    except OSError as error:
        return LookedAt(path, full_path, [], problem=error.strerror or str(error))
    version = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
    return LookedAt(path, full_path, version, problem=None if status.st_size else "0 bytes")


def _find_hashes(folder: str, files: Sequence[LookedAt], done: Callable[[int], object]) -> None:
    """Give files of one folder their hashes: from the cache where it knows them, else by reading them."""
    cached = cache_folder() / "hashes" / f"{hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]}.json"
    try:
        known: dict[str, list] = read_sealed(cached)
    except (OSError, ValueError):
        known = {}
    unknown = []
    for file in files:
        *version, file.hash = known.get(os.path.basename(file.full_path), [""])  # noqa: PTH119
        if version != file.version:
            unknown.append(file)
    done(len(files) - len(unknown))
    if not unknown:
        return
    begin = time.time_ns()
    for file in unknown:
        _read_hash(file)
        done(1)
    sure = begin - int(FRESH_SECONDS * 1e9)
    added = {
        os.path.basename(file.full_path): [*file.version, file.hash]  # noqa: PTH119
        for file in unknown
        if file.problem is None and max(file.version[1:3]) < sure
    }
    if added:
        with suppress(OSError, InputError):  # a cache that cannot be written costs time, nothing else
            write_sealed(cached, {**known, **added})


def _read_hash(file: LookedAt) -> None:
    try:
        with open(file.full_path, "rb", buffering=0) as stream:  # noqa: PTH123
            file.hash = hashlib.file_digest(stream, partial(hashlib.blake2b, digest_size=HASH_BYTES)).hexdigest()
    except OSError as error:
        file.problem = error.strerror or str(error)
