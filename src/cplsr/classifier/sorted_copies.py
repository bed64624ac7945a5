"""Copies of labeled images in a folder per label."""

from __future__ import annotations

import filecmp
import shutil
from collections.abc import Iterable
from itertools import chain, count
from pathlib import Path

from cplsr.errors import InputError
from cplsr.files import new_file


def check_label_folders(classes: Iterable[str], copy_to: Path, query: Path) -> None:
    """Raise `InputError` if a class cannot name a folder, or its folder cannot be made outside of the query folder."""
    for name in classes:
        if not name.strip() or name in (".", "..") or any(letter in name for letter in "/\\\0"):
            raise InputError(f"the class {name!r} cannot be the name of a folder: rename it, or leave out --copy-to")
    if query.is_dir() and copy_to.resolve().is_relative_to(query.resolve()):
        raise InputError(
            f"{copy_to} is in the query folder {query}, so its copies would be labeled themselves next time: give a "
            "folder outside"
        )
    if copy_to.exists() and not copy_to.is_dir():
        raise InputError(f"{copy_to} is a file: give a folder for the copies")


def copy_by_label(labeled: Iterable[tuple[Path, str]], copy_to: Path) -> int:
    """Copy each file to `copy_to`/label.

    A file that is there already with the same content is not copied again. No file is overwritten: where another one
    has the name, a number is added to it. Returns how many files were copied.
    """
    copied = 0
    for file, label in labeled:
        copy = _free_path(file, copy_to / label)
        if copy is None:
            continue
        with file.open("rb") as source, new_file(copy, "wb") as target:
            shutil.copyfileobj(source, target)
        shutil.copystat(file, copy)
        copied += 1
    return copied


def _free_path(file: Path, folder: Path) -> Path | None:
    """Where the copy goes; `None` where the same file is there already."""
    numbered = (folder / f"{file.stem}-{number}{file.suffix}" for number in count(2))
    path = next(path for path in chain([folder / file.name], numbered) if not path.exists() or _same(file, path))
    return None if path.exists() else path


def _same(file: Path, other: Path) -> bool:
    return other.is_file() and filecmp.cmp(file, other, shallow=False)
