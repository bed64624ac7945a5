"""A domain: labeled images with stable identities, decoded one at a time and only when asked for."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

import numpy as np
from jaxtyping import Int64, Shaped
from PIL import Image

from cplsr.declared import nearest
from cplsr.errors import InputError

if TYPE_CHECKING:
    from cplsr.data.vectors import StoredVectors

Item = TypeVar("Item")


class UnreadableImageError(InputError):
    """One image cannot be turned into pixels; the message is the reason alone, without the image's name."""


ImageReader = Callable[[int], Image.Image]
"""Gives the image at a position, fully loaded; picklable, so that worker processes can have a copy.

A bad image raises `UnreadableImageError` or `OSError`; any other exception counts as a bug and is not swallowed. One
with a method `select(positions)`, as `RootedReader` has it, is cut down by that where a domain is.
"""


@dataclass(frozen=True)
class RootedReader(ABC, Generic[Item]):
    """Images in files under one folder: image i is found by `items[i]`, and only these travel to another process."""

    root: str
    items: tuple[Item, ...]

    @abstractmethod
    def read(self, item: Item) -> Image.Image:
        """Read one image."""

    def __call__(self, index: int) -> Image.Image:
        """Read image number `index`."""
        return self.read(self.items[index])

    def select(self, positions: Int64[np.ndarray, "images"]) -> RootedReader[Item]:
        """The images at some positions, in that order."""
        return replace(self, items=tuple(self.items[position] for position in positions.tolist()))


def numbered(labels: Iterable[Any], classes: Sequence[Any]) -> Int64[np.ndarray, "images"]:
    """The position of every label among the classes."""
    number = {name: position for position, name in enumerate(classes)}
    return np.array([number[label] for label in labels], dtype=np.int64)


def _read_selected(reader: ImageReader, positions: Int64[np.ndarray, "images"], index: int) -> Image.Image:
    """Another reader's images, renumbered: image i is the other's image `positions[i]`."""
    return reader(int(positions[index]))


@final
@dataclass(frozen=True, eq=False)
class Domain:
    """Labeled images of one kind, for example a folder of radiographs; `open_domain` makes one.

    Attributes:
        name: what reports call it.
        classes: class names.
        labels: the class of each image, as a position in `classes`.
        identities: one string per image that changes when the image changes and stays when its folder is moved.
        reader: gives image i.
        groups: what an image belongs to besides its class (patient, lesion); support and query never share one.
        flags: remarks that every report must show, for example a count that differs from the benchmark's.
        skipped: (name, reason) of everything that was found but left out.
        validation: opens the domain's own validation split, if it has one.
        vectors: the images' embeddings, where these are kept instead of the images (`cplsr embed`).
    """

    name: str
    classes: tuple[str, ...]
    labels: Int64[np.ndarray, "images"]
    identities: tuple[str, ...]
    reader: ImageReader
    groups: Shaped[np.ndarray, "images"] | None = None
    flags: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    validation: Callable[[], Domain] | None = None
    vectors: StoredVectors | None = None

    def __post_init__(self) -> None:
        images = len(self.identities)
        if len(self.labels) != images or (self.groups is not None and len(self.groups) != images):
            groups = "no" if self.groups is None else len(self.groups)
            raise ValueError(f"{images} identities with {len(self.labels)} labels and {groups} groups: give one each")
        if len(set(self.classes)) != len(self.classes):
            raise ValueError(f"class names must differ, but were {self.classes}")
        if images and not 0 <= self.labels.min() <= self.labels.max() < len(self.classes):
            low, high = self.labels.min(), self.labels.max()
            raise ValueError(f"labels run from {low} to {high}, but {len(self.classes)} classes have 0 to one less")
        frozen = self.labels.copy()
        frozen.setflags(write=False)
        object.__setattr__(self, "labels", frozen)

    def __len__(self) -> int:
        return len(self.identities)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of identities, labels and class names: equal when two domains hold the same images."""
        digest = hashlib.sha256()
        for text in (*self.classes, "", *self.identities):
            encoded = text.encode("utf-8", "surrogateescape")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        digest.update(self.labels.astype("<i8").tobytes())
        return digest.hexdigest()[:32]

    def counts(self) -> dict[str, int]:
        """Count the images of each class, in the order of `classes`."""
        numbers = np.bincount(self.labels, minlength=len(self.classes))
        return dict(zip(self.classes, numbers.tolist(), strict=True))

    def image_name(self, index: int) -> str:
        """The image's name for messages: its identity without the part that tells versions apart."""
        return self.identities[index].rpartition("?")[0] or self.identities[index]

    def select(self, indices: Sequence[int] | np.ndarray) -> Domain:
        """Return the images at `indices`, in that order, with all classes and remarks kept."""
        positions = np.asarray(indices, dtype=np.int64).reshape(-1)
        reader: ImageReader = partial(_read_selected, self.reader, positions)
        if hasattr(self.reader, "select"):
            reader = self.reader.select(positions)
        return replace(
            self,
            labels=self.labels[positions],
            identities=tuple(self.identities[position] for position in positions),
            reader=reader,
            groups=None if self.groups is None else self.groups[positions],
            vectors=None if self.vectors is None else self.vectors.select(positions),
        )

    def only_classes(self, names: Sequence[str]) -> Domain:
        """Return the images of some classes, which become the classes in the order given.

        Raises:
            InputError: there is no class of that name.

        Example:
            >>> from cplsr import open_domain
            >>> open_domain("digits").only_classes(["7", "1"]).counts()
            {'7': 179, '1': 182}
        """
        number = {name: position for position, name in enumerate(self.classes)}
        for name in names:
            if name not in number:
                raise InputError(f"{self.name} has no class {name!r}: {nearest(name, self.classes)}")
        renumbered = np.full(len(self.classes), -1, dtype=np.int64)
        renumbered[[number[name] for name in names]] = np.arange(len(names))
        kept = self.select(np.flatnonzero(renumbered[self.labels] >= 0))
        return replace(kept, classes=tuple(names), labels=renumbered[kept.labels])

    def without_empty_classes(self) -> Domain:
        """The same images, and only the classes that have any."""
        counts = self.counts()
        return self if all(counts.values()) else self.only_classes([name for name, count in counts.items() if count])
