"""A folder with one folder per class as a domain."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from cplsr.data.domain import Domain
from cplsr.data.image_file import is_image_name
from cplsr.data.listing import SHOWN, Row, domain_from_rows, skipped_message
from cplsr.errors import InputError, counted

SYSTEM_FILES = frozenset({"thumbs.db", "desktop.ini", "__macosx"})
NO_IMAGE_NAME = "not the name of an image file"


def open_folder(
    root: Path | str, *, name: str | None = None, classes: Sequence[str] | None = None, strict: bool = False
) -> Domain:
    """Open a folder of `<class>/<image>`; nothing is decoded yet. Hidden and system files are ignored.

    It has the folder's name and all class folders in order of name, if no others are given. What cannot be an image is
    named in `Domain.skipped`, or with `strict` an error.

    Raises:
        InputError: images lie deeper or less deep than that, or there are none; the message shows what was found.
    """
    root = Path(root)
    skipped: list[tuple[str, str]] = []
    folders = _class_folders(root, skipped)
    if classes is not None:
        folders = [folder for folder in folders if folder in set(classes)]
    rows = list(_rows(root, folders, skipped))
    if not rows:
        raise InputError(_nothing_found(root))
    domain = domain_from_rows(rows, root, name=name or root.resolve().name, classes=folders)
    skipped += domain.skipped
    skipped += [(folder, "a class folder without images") for folder, count in domain.counts().items() if not count]
    if strict and skipped:
        raise InputError(skipped_message(root, skipped))
    return replace(domain, skipped=tuple(skipped)).without_empty_classes()


def stream_folder(root: Path, skipped: list[tuple[str, str]]) -> tuple[list[str], int, Iterator[Row]]:
    """The classes of a folder, how many images it has, and these, one class folder listed at a time.

    Other files are added to `skipped`. It raises what `open_folder` does.
    """
    folders = _class_folders(root, skipped)
    images = sum(1 for _ in _rows(root, folders, []))
    if not images:
        raise InputError(_nothing_found(root))
    return folders, images, _rows(root, folders, skipped)


def walk_images(folder: Path, skipped: list[tuple[str, str]]) -> Iterator[str]:
    """The images in a folder and the folders in it, in order of path, one folder listed at a time.

    Hidden and system files are ignored, links to folders not followed; other files are added to `skipped`.
    """
    try:
        entries = _visible(folder)
    except InputError:
        skipped.append((str(folder), "a folder that cannot be read"))
        return
    for entry in sorted(entries, key=lambda entry: f"{entry.name}{os.sep if _is_folder(entry) else ''}"):
        path = Path(entry.path)
        if _is_folder(entry):
            if not entry.is_symlink():
                yield from walk_images(path, skipped)
        elif is_image_name(entry.name):
            yield str(path)
        else:
            skipped.append((str(path), NO_IMAGE_NAME))


def subfolders(folder: Path) -> list[str]:
    """Names of the visible folders in a folder, in order of name."""
    return [entry.name for entry in _visible(folder) if _is_folder(entry)]


def _visible(folder: Path | str) -> list[os.DirEntry[str]]:
    """Entries that are neither hidden nor left behind by an operating system, in order of name."""
    try:
        with os.scandir(folder) as entries:
            kept = [entry for entry in entries if entry.name[0] != "." and entry.name.lower() not in SYSTEM_FILES]
    except OSError as error:
        raise InputError(f"folder {folder} cannot be read ({error.strerror}): check its permissions") from error
    return sorted(kept, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a symbolic link that leads to itself
        return False


def _class_folders(root: Path, skipped: list[tuple[str, str]]) -> list[str]:
    if not root.exists():
        raise InputError(f"{root} does not exist: give a folder that holds one folder of images per class")
    if not root.is_dir():
        raise InputError(f"{root} is a file: give the folder that holds one folder of images per class")
    folders = []
    resolved = root.resolve()
    for entry in _visible(root):
        if not _is_folder(entry):
            if is_image_name(entry.name):
                skipped.append((entry.name, "an image outside of the class folders"))
            continue
        if entry.is_symlink() and resolved.is_relative_to(Path(entry.path).resolve()):
            skipped.append((entry.name, "a symbolic link that leads back to the folder it is in"))
            continue
        folders.append(entry.name)
    return folders


def _rows(root: Path, folders: Sequence[str], skipped: list[tuple[str, str]]) -> Iterator[Row]:
    for folder in folders:
        for entry in _visible(root / folder):
            relative = f"{folder}/{entry.name}"
            if _is_folder(entry):
                if _visible(entry.path):
                    raise InputError(_too_deep(root, folder))
            elif is_image_name(entry.name):
                yield Row(relative, folder)
            else:
                skipped.append((relative, NO_IMAGE_NAME))


def _too_deep(root: Path, folder: str) -> str:
    inner = root / folder
    first = next(entry.name for entry in _visible(inner) if _is_folder(entry))
    return (
        f"{root} is nested too deeply: wanted {root.name}/<class>/<image>, found {describe(root)}; "
        f"in {folder}/ there is {describe(inner)}; in {folder}/{first}/ there is {describe(inner / first)}. "
        f"Give the folder right above the classes, perhaps {inner}"
    )


def _nothing_found(root: Path) -> str:
    entries = _visible(root)
    if any(not _is_folder(entry) and is_image_name(entry.name) for entry in entries):
        return (
            f"{root} holds images but no class folders: found {describe(root)}; "
            "put the images of each class into a folder of their own, or give a csv with the columns path,label"
        )
    return f"{root} holds no images: found {describe(root)}; wanted {root.name}/<class>/<image>"


def describe(folder: Path) -> str:
    """Describe a folder's content, for example `2 folders (train, val) and 1 file (README.md)`."""
    entries = _visible(folder)
    parts = []
    for kind, names in (
        ("folder", [entry.name for entry in entries if _is_folder(entry)]),
        ("file", [entry.name for entry in entries if not _is_folder(entry)]),
    ):
        if names:
            more = ", …" if len(names) > SHOWN else ""
            parts.append(f"{counted(len(names), kind)} ({', '.join(names[:SHOWN])}{more})")
    return " and ".join(parts) or "nothing"
