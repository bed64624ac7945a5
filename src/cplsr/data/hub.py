"""Data sets of the `datasets` library as domains: from the hub, from parquet files, or written by `save_to_disk`."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
from PIL import Image

from cplsr.data.domain import Domain, UnreadableImageError, numbered
from cplsr.data.identity import look_at_files
from cplsr.data.image_file import read_image
from cplsr.environment import is_offline
from cplsr.errors import InputError, first_line

LABEL_COLUMNS = ("label", "labels", "class", "fine_label", "target", "wnid")


def _read_row(rows: Any, column: str, index: int) -> Image.Image:
    """An image of a data set; it is encoded in the column, and rows are memory-mapped, not loaded."""
    cell = rows[index][column]
    if cell is None:
        raise UnreadableImageError("no image in this row")
    return read_image(cell["path"] if cell["bytes"] is None else cell["bytes"])


@final
@dataclass(frozen=True)
class Address:
    """The parts of `user/name[:config][@split][#label column]`."""

    repository: str
    config: str | None = None
    split: str | None = None
    label: str | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Take an address apart."""
        rest, _, label = text.partition("#")
        rest, _, split = rest.partition("@")
        repository, _, config = rest.partition(":")
        if not repository:
            raise InputError("hf: names no data set: give hf:user/name, for example hf:blanchon/EuroSAT_RGB")
        return cls(repository, config or None, split or None, label or None)


@final
@dataclass(frozen=True)
class DataSet:
    """A data set of the `datasets` library, found but not opened.

    Attributes:
        source: where it is, for messages.
        splits: names of its parts.
        rows: gives the rows of a part, a hash of its files, and what reports call it.
        label: the column of labels; default: the one of type `ClassLabel`, or one with a usual name.
        split: the part that is opened when none is named.
    """

    source: str
    splits: tuple[str, ...]
    rows: Callable[[str], tuple[Any, str, str]]
    label: str | None = None
    split: str | None = None

    def open(self, split: str | None = None, *, labeled: bool = True) -> Domain:
        """Open a part; default: its `split`, the only one, or `train`. Without labels there is one nameless class.

        Raises:
            InputError: there is no such part or no such column.
        """
        datasets = _import_datasets()
        rows, version, name = self.rows(_choose_split(self.source, self.splits, split or self.split))
        images = [column for column, feature in rows.features.items() if isinstance(feature, datasets.Image)]
        if len(images) != 1:
            found = f"{len(images)} image columns among {', '.join(rows.features)}"
            raise InputError(f"{name} has {found}: give a data set with exactly one")
        if not len(rows):
            raise InputError(f"{name} has no rows in this split: give another split")
        encoded = rows.select_columns(images).cast_column(images[0], datasets.Image(decode=False))
        classes, labels = _labels(rows, self.label, name) if labeled else (("",), np.zeros(len(rows), dtype=np.int64))
        return Domain(
            name=name,
            classes=classes,
            labels=labels,
            identities=tuple(f"{version}/{row}" for row in range(len(rows))),
            reader=partial(_read_row, encoded, images[0]),
        )


def find_on_hub(address: str) -> DataSet:
    """Find a data set on the hub, or in its local cache when offline, by its `Address`."""
    parts = Address.parse(address)
    return _prepared(parts, parts.repository.rsplit("/", 1)[-1])


def is_saved_data_set(folder: Path) -> bool:
    """Whether a folder holds parquet files or what `datasets.save_to_disk` writes, and not folders of images."""
    return _was_saved_to_disk(folder) or any(
        True for inner in (folder, folder / "data") for _ in inner.glob("*.parquet")
    )


def _was_saved_to_disk(folder: Path) -> bool:
    return any((folder / mark).is_file() for mark in ("dataset_dict.json", "state.json"))


def find_saved(folder: Path) -> DataSet:
    """Find a data set in a folder of parquet files, or in one that `datasets.save_to_disk` has written."""
    if not _was_saved_to_disk(folder):
        return _prepared(Address(str(folder)), folder.resolve().name)
    datasets = _import_datasets()
    try:
        saved = datasets.load_from_disk(str(folder))
    except Exception as error:  # a missing or damaged file inside shows as nearly anything
        raise InputError(f"{folder} is empty or damaged ({error}): write it again with save_to_disk") from error
    if isinstance(saved, datasets.DatasetDict):
        return DataSet(str(folder), tuple(saved), lambda split: _stored(saved[split], folder / split))
    return DataSet(str(folder), ("train",), lambda split: _stored(saved, folder))


def _stored(rows: Any, folder: Path) -> tuple[Any, str, str]:
    return rows, _files_hash(map(str, sorted(folder.glob("*.arrow"))), folder), folder.resolve().name


def _import_datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise InputError("hub and parquet data sets need the datasets library: pip install 'cplsr[hub]'") from error
    return datasets


@contextmanager
def _silent_unless_watched(datasets: Any) -> Iterator[None]:
    """Progress bars only on a terminal, as everywhere else."""
    quiet = not datasets.are_progress_bars_disabled() and not sys.stderr.isatty()
    if quiet:
        datasets.disable_progress_bars()
    try:
        yield
    finally:
        if quiet:
            datasets.enable_progress_bars()


def _prepared(address: Address, name: str) -> DataSet:
    """The data set with its files downloaded and converted, which `datasets` does only once."""
    datasets, path, config = _import_datasets(), address.repository, address.config
    try:
        with _silent_unless_watched(datasets):
            builder = datasets.load_dataset_builder(path, config)
            builder.download_and_prepare()
    except Exception as error:  # files, network and formats: the library lets through what each of them raises
        hint = "downloads are switched off by HF_HUB_OFFLINE" if is_offline() else "check the name and the connection"
        raise InputError(f"data set {path} cannot be opened ({first_line(error)}): {hint}") from error

    def rows(split: str) -> tuple[Any, str, str]:
        files = (builder.config.data_files or {}).get(split, [path, str(config), str(builder.hash)])
        root = Path(path) if Path(path).is_dir() else None
        return builder.as_dataset(split=split), _files_hash(files, root), name

    return DataSet(path, tuple(builder.info.splits), rows, address.label, address.split)


def _choose_split(source: str, available: Sequence[str], wanted: str | None) -> str:
    if wanted is None and len(available) == 1:
        return available[0]
    meant = wanted or "train"
    for split in (meant, {"val": "validation", "validation": "val"}.get(meant, meant)):
        if split in available:
            return split
    raise InputError(
        f"{source} has no split {wanted!r}: it has {', '.join(available)}; write it as hf:NAME@SPLIT or give split="
    )


def _files_hash(files: Iterable[str], root: Path | None) -> str:
    """A hash that stays when a folder is moved and changes when a file does; addresses on the hub name a revision."""
    digest = hashlib.blake2b(digest_size=8)
    for file in files:
        if root is not None and os.path.exists(file):  # noqa: PTH110
            (looked,) = look_at_files(str(root), [os.path.relpath(Path(file).resolve(), root.resolve())])
            file = looked.identity
        digest.update(f"{file}\n".encode())
    return digest.hexdigest()


def _label_column(features: Any, wanted: str | None, name: str) -> str:
    class_label = _import_datasets().ClassLabel
    typed = [column for column, feature in features.items() if isinstance(feature, class_label)]
    usual = typed if len(typed) == 1 else LABEL_COLUMNS
    for column in usual if wanted is None else [wanted]:
        if column in features:
            return column
    asked = "a label column" if wanted is None else f"a column {wanted!r}"
    raise InputError(f"{name} lacks {asked}: it has {', '.join(features)}; name one as hf:NAME#COLUMN")


def _labels(rows: Any, wanted: str | None, name: str) -> tuple[tuple[str, ...], np.ndarray]:
    """Class names and labels; classes without images are left out, numbers and texts become names."""
    column = _label_column(rows.features, wanted, name)
    values = rows.select_columns([column]).with_format("arrow")[:][column].to_pylist()
    feature = rows.features[column]
    if any(value is None for value in values) or isinstance(values[0], list | dict):
        raise InputError(
            f"column {column} of {name} does not give every image one label: name another as hf:NAME#COLUMN"
        )
    named = isinstance(feature, _import_datasets().ClassLabel)
    if named and min(values) < 0:
        raise InputError(f"column {column} of {name} holds no labels in this split: give another split")
    order = sorted(set(values))
    classes = tuple(feature.names[value] if named else str(value) for value in order)
    return classes, numbered(values, order)
