"""Images without labels on disk: a folder at any depth, one image, or a table of paths."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cplsr.data.domain import Domain, ImageReader
from cplsr.data.folder import NO_IMAGE_NAME, SYSTEM_FILES
from cplsr.data.identity import look_at_files
from cplsr.data.image_file import FileReader, is_image_name
from cplsr.data.listing import PATH_COLUMNS, skipped_by_kind
from cplsr.data.vectors import is_vectors, open_vectors
from cplsr.errors import InputError

TABLES = frozenset({".csv", ".tsv"})


def open_queries(source: str | Path) -> Domain:
    """List unlabeled images; nothing is decoded.

    An image's name is its path: as it can be opened from here, or as the table has it. Files of a folder that are no
    images are in `skipped`. A file that a table lists but
    that does not exist stays listed, and turns out to be unreadable when it is read.

    Args:
        source: A folder, whose images at any depth are taken in order of path; one image; or a csv (or .tsv) with a
            column called path, file, filename or image, its paths relative to the table's own folder, in its order;
            or a folder written by `cplsr embed`.

    Raises:
        InputError: If the source does not exist, holds no image, or is neither a table nor an image.
    """
    path = Path(source).expanduser()
    if is_vectors(path):
        return open_vectors(path)
    if path.is_dir():
        images, skipped = images_below(path)
        return replace(unlabeled_files(path.resolve().name, images), skipped=tuple(skipped))
    if not path.exists():
        raise InputError(f"{path} does not exist: give a folder of images, one image, or a csv with the column path")
    if path.suffix.lower() in TABLES:
        return unlabeled_files(path.stem, _paths_in(path), root=path.parent)
    if not is_image_name(path.name):
        raise InputError(f"{path} is not the name of an image: give a folder of images, an image, or a csv of paths")
    return unlabeled_files(path.name, [str(path)])


def images_below(folder: Path) -> tuple[list[str], list[tuple[str, str]]]:
    """Find the images in a folder and the folders in it, sorted by path; hidden and system files are ignored.

    Returns:
        The images, and (path, reason) of the other files.

    Raises:
        InputError: If there is no image.
    """
    images: list[str] = []
    skipped: list[tuple[str, str]] = []
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if _is_visible(name))
        for name in filter(_is_visible, files):
            path = str(Path(parent) / name)
            if is_image_name(name):
                images.append(path)
            else:
                skipped.append((path, NO_IMAGE_NAME))
    if not images:
        found = f" ({skipped_by_kind(folder, sorted(skipped))})" if skipped else ""
        raise InputError(f"there is no image in {folder} or the folders in it{found}: give a folder that holds some")
    return sorted(images), sorted(skipped)


def unlabeled_files(name: str, paths: Sequence[str], root: Path | None = None) -> Domain:
    """Image files as a domain of one nameless class; relative paths start at `root`."""
    base = "" if root is None else str(root)
    identities = [file.identity for file in look_at_files(base, paths)]
    return unlabeled(name, identities, FileReader(base, tuple(paths)))


def unlabeled(name: str, identities: Sequence[str], reader: ImageReader) -> Domain:
    """Images as a domain of one nameless class."""
    labels = np.zeros(len(identities), dtype=np.int64)
    return Domain(name=name, classes=("",), labels=labels, identities=tuple(identities), reader=reader)


def _is_visible(name: str) -> bool:
    return not name.startswith(".") and name.lower() not in SYSTEM_FILES


def _paths_in(table: Path) -> list[str]:
    try:
        with table.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, delimiter="\t" if table.suffix.lower() == ".tsv" else ",")
            header = [cell.strip().lower() for cell in next(reader, [])]
            column = next((header.index(name) for name in PATH_COLUMNS if name in header), None)
            if column is None:
                columns = ",".join(header) or "nothing"
                raise InputError(
                    f"{table} has the columns {columns}, but needs one called path: add it to the first line"
                )
            lines = [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{table} is not a table in UTF-8 ({error}): save it as csv with the column path") from error
    for line, cells in lines:
        if len(cells) <= column or not cells[column].strip() or "\0" in cells[column]:
            raise InputError(f"{table}, line {line} has no path: give one image per line")
    if not lines:
        raise InputError(f"{table} lists no images: give one path per line below the header")
    return [cells[column].strip() for _, cells in lines]
