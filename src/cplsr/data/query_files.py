"""Images without labels: a folder at any depth, one image, a table of paths, tar files, or a data set of the hub."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from cplsr.data.domain import Domain, ImageReader
from cplsr.data.folder import walk_images
from cplsr.data.hub import find_on_hub, find_saved, is_saved_data_set
from cplsr.data.identity import look_at_files
from cplsr.data.image_file import FileReader, is_image_name
from cplsr.data.listing import TABLES, read_rows, skipped_by_kind
from cplsr.data.parts import Parts, cut, parts_of, tar_parts
from cplsr.data.tar import is_tar
from cplsr.data.vectors import is_vectors, open_vectors
from cplsr.errors import InputError

HUB = "hf:"


def open_queries(source: str | Path) -> Domain:
    """List unlabeled images; nothing is decoded.

    An image's name is its path: as it can be opened from here, or as the table or the tar file has it. Files of a
    folder that are no images are in `skipped`. A file that a table lists but that does not exist stays listed, and
    turns out to be unreadable when it is read.

    Args:
        source: A folder, whose images at any depth are taken in order of path; one image; or a csv (or .tsv) with a
            column called path, file, filename or image, its paths relative to the table's own folder, in its order;
            a tar file or a folder of them; a folder of parquet files; `hf:user/name[:config][@split]`; or a folder
            written by `cplsr embed`.

    Raises:
        InputError: If the source does not exist, holds no image, or is neither a table nor an image.
    """
    return unlabeled_parts(source).whole()


def unlabeled_parts(source: str | Path) -> Parts:
    """Cut what `open_queries` opens into parts: files are listed as they are needed, and hashed by who opens a part."""
    path = Path(source).expanduser()
    if path.as_posix().startswith(HUB) and not path.exists():
        return parts_of(find_on_hub(path.as_posix().removeprefix(HUB)).open(labeled=False))
    if is_vectors(path):
        return parts_of(open_vectors(path))
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise InputError(
            f"{path} does not exist: give a folder of images, one image, a csv with the column path, tar files, or "
            "hf:user/name"
        )
    if path.suffix.lower() in TABLES:
        images = sum(1 for _ in read_rows(path, labeled=False))
        paths = (row.path for row in read_rows(path, labeled=False))
        open_files = partial(unlabeled_files, path.stem, root=path.parent)
        return Parts(path.stem, ("",), partial(cut, paths, open_files), images=images)
    if is_tar(path):
        return tar_parts(path, labeled=False)
    if not is_image_name(path.name):
        raise InputError(f"{path} is not the name of an image: give a folder of images, an image, or a csv of paths")
    return parts_of(unlabeled_files(path.name, [str(path)]))


def _folder(folder: Path) -> Parts:
    """The images in a folder and the folders in it; only where there are none, its tar or parquet files."""
    skipped: list[tuple[str, str]] = []
    images = sum(1 for _ in walk_images(folder, skipped))
    if not images and is_tar(folder):
        return tar_parts(folder, labeled=False)
    if not images and is_saved_data_set(folder):
        return parts_of(find_saved(folder).open(labeled=False))
    if not images:
        found = f" ({skipped_by_kind(folder, skipped)})" if skipped else ""
        raise InputError(f"there is no image in {folder} or the folders in it{found}: give a folder that holds some")
    name, skipped = folder.resolve().name, []
    open_files = partial(unlabeled_files, name)
    return Parts(name, ("",), partial(cut, walk_images(folder, skipped), open_files), skipped, images)


def unlabeled_files(name: str, paths: Sequence[str], root: Path | None = None) -> Domain:
    """Image files as a domain of one nameless class; relative paths start at `root`."""
    base = "" if root is None else str(root)
    identities = [file.identity for file in look_at_files(base, paths)]
    return unlabeled(name, identities, FileReader(base, tuple(paths)))


def unlabeled(name: str, identities: Sequence[str], reader: ImageReader) -> Domain:
    """Images as a domain of one nameless class."""
    labels = np.zeros(len(identities), dtype=np.int64)
    return Domain(name=name, classes=("",), labels=labels, identities=tuple(identities), reader=reader)
