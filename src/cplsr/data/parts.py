"""A source cut into parts that can be opened one by one, elsewhere and without the whole: for millions of images."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from cplsr.data.domain import Domain
from cplsr.data.folder import stream_folder
from cplsr.data.hub import is_saved_data_set
from cplsr.data.listing import TABLES, listed, read_rows
from cplsr.data.open import open_domain
from cplsr.data.tar import from_members, is_tar, stream_tar, tar_classes
from cplsr.data.vectors import is_vectors

Part = Callable[[], Domain]
"""Opens some images of a source as a domain; picklable. All parts of a source have the same classes."""

Row = TypeVar("Row")


@dataclass(frozen=True)
class Parts:
    """The images of a source, in order, as parts of a given number of images.

    Attributes:
        name: what reports call the source.
        classes: of all parts.
        parts: gives the parts, each of at most so many images.
        skipped: (name, reason) of what is no image; complete when all parts were given.
        images: how many there are at most.
    """

    name: str
    classes: tuple[str, ...]
    parts: Callable[[int], Iterator[Part]]
    skipped: list[tuple[str, str]] = field(default_factory=list)
    images: int = 0

    def whole(self) -> Domain:
        """Open all of it as one domain."""
        (domain,) = (part() for part in self.parts(sys.maxsize))
        return replace(domain, skipped=(*self.skipped, *domain.skipped))


def open_parts(source: str | Path) -> Parts:
    """Cut what `open_domain` opens into parts.

    Folders with one folder per class, tables and tar files are listed as they are needed, in memory that does not
    depend on their number, and hashed by whoever opens a part. Other sources are opened whole.
    """
    if source == "digits":  # also where there is a folder of that name
        return parts_of(open_domain(source))
    path = Path(source).expanduser()
    if path.is_file() and path.suffix.lower() in TABLES:
        return _table(path)
    if path.exists() and is_tar(path):
        return tar_parts(path)
    if path.is_dir() and not is_saved_data_set(path) and not is_vectors(path):
        return _folder(path)
    return parts_of(open_domain(source))


def parts_of(domain: Domain) -> Parts:
    """Cut a domain into parts."""
    untold = replace(domain, skipped=())  # those are told once, for the whole

    def parts(images: int) -> Iterator[Part]:
        for start in range(0, len(domain), images):
            yield partial(replace, untold.select(np.arange(start, min(start + images, len(domain)))))

    return Parts(domain.name, domain.classes, parts, list(domain.skipped), len(domain))


def _folder(root: Path) -> Parts:
    skipped: list[tuple[str, str]] = []
    classes, images, rows = stream_folder(root, skipped)
    open_rows = partial(listed, root=root, name=root.resolve().name, classes=tuple(classes))
    return Parts(root.resolve().name, tuple(classes), partial(cut, rows, open_rows), skipped, images)


def _table(table: Path) -> Parts:
    labels = Counter(row.label for row in read_rows(table))
    classes = tuple(sorted(labels))
    open_rows = partial(listed, root=table.parent, name=table.stem, classes=classes)
    return Parts(table.stem, classes, partial(cut, read_rows(table), open_rows), images=labels.total())


def tar_parts(path: Path, *, labeled: bool = True) -> Parts:
    """Cut tar files into parts; without labels, all images in them are of one nameless class."""
    skipped: list[tuple[str, str]] = []
    labels = Counter(member.label for member in stream_tar(path, [], labeled=labeled))
    classes = tuple(tar_classes(path, labels, labeled=labeled))
    open_members = partial(from_members, path=path, classes=classes)
    members = stream_tar(path, skipped, labeled=labeled)
    return Parts(path.stem, classes, partial(cut, members, open_members), skipped, labels.total())


def cut(rows: Iterable[Row], opens: Callable[[tuple[Row, ...]], Domain], images: int) -> Iterator[Part]:
    """Parts of `images` rows each, opened by `opens`."""
    source = iter(rows)
    while part := tuple(islice(source, images)):
        yield partial(opens, part)
