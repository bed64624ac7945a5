"""Image domains that need no download: every picture is made by code from (domain, class, instance, seed)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import final

import numpy as np
from jaxtyping import Int64, UInt8

from cplsr.data.procedural import base, dermoscopy, landcover, leaf, radiograph
from cplsr.data.procedural.canvas import Painter
from cplsr.data.procedural.noise import SIDE
from cplsr.data.procedural.paint import quantized
from cplsr.errors import InputError


@final
@dataclass(frozen=True)
class Recipe:
    """What a domain is made of: for each split the painters by class name, and how many pictures of each class."""

    summary: str
    splits: Mapping[str, Mapping[str, Painter]]
    images_per_class: Mapping[str, int]


def _target(summary: str, painters: Mapping[str, Painter]) -> Recipe:
    return Recipe(summary, {"train": painters}, {"train": 60})


DOMAINS: Mapping[str, Recipe] = MappingProxyType(
    {
        "base": Recipe(
            "photographs of things and places",
            {"train": base.TRAIN, "val": base.VAL},
            {"train": 300, "val": 60},
        ),
        "radiograph": _target("grey chest projections that differ by one finding", radiograph.CLASSES),
        "dermoscopy": _target("skin lesions that differ by their structure", dermoscopy.CLASSES),
        "landcover": _target("land seen from above", landcover.CLASSES),
        "leaf": _target("leaves of nine plants with and without disease", leaf.CLASSES),
    }
)


@final
@dataclass(frozen=True)
class ProceduralDomain:
    """A labeled collection of pictures that exist only when they are looked at.

    Class by class, `images_per_class` pictures each. Picture number i of a class is the same whatever the number of
    pictures, the order of calls or the process. Holds no pixels and no functions, so it pickles to a few bytes.
    """

    name: str
    split: str
    seed: int
    images_per_class: int

    @property
    def _painters(self) -> Mapping[str, Painter]:
        return DOMAINS[self.name].splits[self.split]

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names, in the order of the labels."""
        return tuple(self._painters)

    @property
    def labels(self) -> Int64[np.ndarray, "images"]:
        """The class of every picture, as an index into `classes`."""
        return np.repeat(np.arange(len(self._painters), dtype=np.int64), self.images_per_class)

    def __len__(self) -> int:
        return len(self._painters) * self.images_per_class

    def render(self, index: int) -> UInt8[np.ndarray, "height width 3"]:
        """Draw one picture."""
        if not 0 <= index < len(self):
            raise InputError(
                f"picture {index} of the procedural domain {self.name!r} was asked for; it has {len(self)}: "
                f"use an index from 0 to {len(self) - 1}"
            )
        label, instance = divmod(int(index), self.images_per_class)
        name = self.classes[label]
        picture = self._painters[name](_generator(self.name, name, instance, self.seed))
        return quantized(picture).reshape(SIDE, SIDE, 3)


def _generator(domain: str, class_name: str, instance: int, seed: int) -> np.random.Generator:
    """An independent stream of random numbers for one picture, keyed by what the picture is and nothing else."""
    identity = f"{domain}\0{class_name}\0{instance}\0{seed}".encode()
    key = np.frombuffer(hashlib.sha256(identity).digest()[:16], "<u8")
    return np.random.Generator(np.random.Philox(key=key.astype(np.uint64)))


def make_domain(
    name: str, split: str = "train", *, seed: int = 0, images_per_class: int | None = None
) -> ProceduralDomain:
    """Set up a procedural domain; nothing is drawn yet.

    Args:
        name: `base`, `radiograph`, `dermoscopy`, `landcover` or `leaf`.
        split: `train`; `base` also has `val`, with classes of its own.
        seed: another one gives other pictures of the same classes.
        images_per_class: default: what the domain was designed for.

    Raises:
        InputError: there is no such domain or split, or the count is below 1.

    Example:
        >>> leaves = make_domain("leaf", images_per_class=2)
        >>> leaves.classes[0], leaves.render(0).shape
        ('cherry healthy', (96, 96, 3))
    """
    if name not in DOMAINS:
        raise InputError(f"there is no procedural domain {name!r}: choose one of {', '.join(DOMAINS)}")
    recipe = DOMAINS[name]
    if split not in recipe.splits:
        raise InputError(
            f"the procedural domain {name!r} has no split {split!r}: choose one of {', '.join(recipe.splits)}"
        )
    count = recipe.images_per_class[split] if images_per_class is None else images_per_class
    if count < 1:
        raise InputError(f"{count} images per class were asked for: ask for at least 1")
    return ProceduralDomain(name, split, seed, count)
