"""Tar shards in the layout of webdataset as a domain: `key.jpg`, and its label in `key.cls` or `key.json`."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, final

from PIL import Image

from cplsr.data.domain import Domain, RootedReader, numbered
from cplsr.data.identity import HASH_BYTES
from cplsr.data.image_file import is_image_name, read_image
from cplsr.data.listing import skipped_message
from cplsr.errors import InputError

LABEL_KEYS = ("label", "cls", "class", "target")
NO_LABEL = "no label beside it, as .cls or in .json"


class Member(NamedTuple):
    """An image inside a tar file: the file's and its own name, the bytes that are its content, and its class."""

    tar: str
    name: str
    offset: int
    size: int
    label: str


@final
@dataclass(frozen=True)
class TarReader(RootedReader[Member]):
    """Images inside tar files under one folder."""

    def read(self, item: Member) -> Image.Image:
        """Read this image."""
        return read_image(_content(self.root, item))


def is_tar(path: Path) -> bool:
    """Whether this is a tar file, or a folder that holds some."""
    return path.suffix.lower() == ".tar" if path.is_file() else any(True for _ in path.glob("*.tar"))


def open_tar(path: Path, *, strict: bool = False) -> Domain:
    """Open a tar file, or all `*.tar` of a folder in order of name; every image is read once, for its hash.

    Raises:
        InputError: A file is damaged or compressed, or no image has a label.
    """
    skipped: list[tuple[str, str]] = []
    members = list(stream_tar(path, skipped))
    classes = tar_classes(path, {member.label for member in members})
    domain = from_members(members, path, classes)
    if strict and skipped:
        raise InputError(skipped_message(path, skipped))
    return replace(domain, skipped=tuple(skipped))


def tar_classes(path: Path, labels: Collection[str], *, labeled: bool = True) -> list[str]:
    """The classes of tar files, from the labels in them, if there are any: numbers by value, names by letter."""
    if not labels:
        lacking = " with a label: wanted is webdataset's layout, key.jpg and key.cls or key.json"
        raise InputError(f"{path} holds no image{lacking if labeled else ': give tar files that hold some'}")
    return sorted(labels, key=int) if all(label.isdecimal() for label in labels) else sorted(labels)


def from_members(members: Sequence[Member], path: Path, classes: Sequence[str]) -> Domain:
    """Make a domain of images inside a tar file or those of a folder; their content is read once, for its hash."""
    root = path.parent if path.is_file() else path
    return Domain(
        name=path.stem,
        classes=tuple(classes),
        labels=numbered((member.label for member in members), classes),
        identities=tuple(_identity(str(root), member) for member in members),
        reader=TarReader(str(root), tuple(members)),
    )


def stream_tar(path: Path, skipped: list[tuple[str, str]], *, labeled: bool = True) -> Iterator[Member]:
    """The labeled images of tar files, one after the other; images without a label are added to `skipped`.

    Files of one key must follow each other, as webdataset has it. Where no labels are wanted, all images are given.
    """
    for file in [path] if path.is_file() else sorted(path.glob("*.tar")):
        try:
            with tarfile.open(file, "r:") as tar:  # "r:": compressed ones cannot be read from the middle
                yield from _samples(tar, file.name, skipped) if labeled else _images(tar, file.name)
        except (tarfile.TarError, EOFError) as error:
            raise InputError(
                f"{file} is damaged, or compressed so that no single image can be read ({error}): give plain tar files"
            ) from error


def _files(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for info in tar:
        tar.members = []  # type: ignore[attr-defined]  # else it would remember every one of them
        if info.isfile():
            yield info


def _images(tar: tarfile.TarFile, name: str) -> Iterator[Member]:
    for info in _files(tar):
        if is_image_name(info.name):
            yield Member(name, info.name, info.offset_data, info.size, "")


def _samples(tar: tarfile.TarFile, name: str, skipped: list[tuple[str, str]]) -> Iterator[Member]:
    for _, files in groupby(_files(tar), lambda info: _parts(info)[:2]):
        image, label = None, None
        for info in files:
            _, stem, ending = _parts(info)
            if ending in ("cls", "json"):
                content = tar.extractfile(info)
                label = _label(content.read() if content is not None else b"", ending) or label
            elif is_image_name(f"{stem}.{ending}"):
                image = Member(name, info.name, info.offset_data, info.size, "")
        if image is not None and label is None:
            skipped.append((f"{name}/{image.name}", NO_LABEL))
        elif image is not None and label is not None:
            yield image._replace(label=label)


def _parts(info: tarfile.TarInfo) -> tuple[str, str, str]:
    """Folder and name, which the files of one image share, and ending."""
    folder, _, base = info.name.rpartition("/")
    stem, _, ending = base.partition(".")
    return folder, stem, ending


def _label(content: bytes, ending: str) -> str | None:
    """The class that a .cls or .json file names; `None` where it names none."""
    text = content.decode("utf-8", "replace").strip()
    if ending == "cls":
        return text or None
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        return None
    values = [table[key] for key in LABEL_KEYS if key in table] if isinstance(table, dict) else []
    return str(values[0]) if values and isinstance(values[0], str | int) else None


def _identity(root: str, member: Member) -> str:
    digest = hashlib.blake2b(_content(root, member), digest_size=HASH_BYTES).hexdigest()
    return f"{member.tar}/{member.name}?{member.size}-{digest}"


def _content(root: str, member: Member) -> bytes:
    with open(os.path.join(root, member.tar), "rb") as stream:  # noqa: PTH118, PTH123 (called for every image)
        stream.seek(member.offset)
        return stream.read(member.size)
