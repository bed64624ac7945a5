"""What a folder of vectors is, apart from its shards: vectors.json."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cplsr.declared import fit
from cplsr.errors import InputError
from cplsr.files import read_sealed, write_sealed

INDEX = "vectors.json"


@dataclass(frozen=True)
class VectorsInfo:
    """What the vectors are of, and how they were made; nothing in it depends on how many processes made them.

    Attributes:
        name: Of the data.
        classes: Their names, in the order of the labels.
        model: All that a vector depends on besides its image (`EmbeddingKey`).
        dim: Numbers of a vector.
        batch_size: Images embedded at a time, on which the last digits depend.
        shard_images: Images of a shard, at most.
        skipped: (name, reason) of files that are no images.
        shards: How many there are; `None` while they are being made.
        images: How many images have a vector; `None` while they are being made.
        failed: How many images have none; `None` while they are being made.
        format: Of the folder.
    """

    name: str
    classes: list[str]
    model: dict[str, Any]
    dim: int
    batch_size: int
    shard_images: int
    skipped: list[tuple[str, str]]
    shards: int | None = None
    images: int | None = None
    failed: int | None = None
    format: int = 1

    def write(self, folder: Path) -> None:
        """Write it to its folder."""
        write_sealed(folder / INDEX, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> VectorsInfo:
        """Read it, if it is whole and of no newer version."""
        try:
            return fit(read_sealed(folder / INDEX), cls, "its content")
        except (OSError, ValueError) as error:
            raise InputError(
                f"{folder / INDEX} cannot be read ({error}): remove it and run `cplsr embed` again; shards are kept"
            ) from error
