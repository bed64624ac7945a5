"""A file that says exactly which images a set of episodes holds, for somebody with the same images elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Shaped
from numpy import ndarray

from cplsr.episodes.sampling import Episodes, EpisodeSampler
from cplsr.errors import InputError
from cplsr.records.record import Record
from cplsr.settings.episodes import Queries

_DRAWN_BY = ("way", "shot", "query", "seed", "queries")
"""Settings of a sampler."""


@dataclass(frozen=True)
class EpisodeManifest(Record):
    """All that a set of episodes depends on, and a checksum of the outcome.

    The index arrays themselves are not stored: they are drawn again, and the checksum says whether they came out the
    same. Labels and groups are names or whole numbers, one per image, in the order of `identities`.
    """

    what: ClassVar = "an episode manifest (written by `EpisodeManifest.write`)"

    format: Literal["cplsr episodes 1"] = field(default="cplsr episodes 1", kw_only=True)
    way: int
    shot: int
    query: int
    count: int
    seed: int
    identities: tuple[str, ...]
    labels: tuple[str | int, ...]
    groups: tuple[str | int, ...] | None
    checksum: str
    queries: Queries = "balanced"

    @classmethod
    def of(cls, sampler: EpisodeSampler, count: int, identities: Sequence[str]) -> EpisodeManifest:
        """Draw the sampler's first `count` episodes and note what they depend on; `identities` name the images."""
        if len(sampler.labels) != len(identities):
            raise InputError(
                f"{len(sampler.labels)} labels and {len(identities)} identities were given: give one each per image"
            )
        return cls(
            count=count,
            identities=tuple(identities),
            labels=_plain(sampler.labels),
            groups=None if sampler.groups is None else _plain(sampler.groups),
            checksum=episodes_checksum(sampler.draw(count)),
            **{name: getattr(sampler, name) for name in _DRAWN_BY},
        )

    def episodes(self, identities: Sequence[str] | None = None) -> Episodes:
        """The episodes, as indices into `identities` where these are given, else into the manifest's own list."""
        settings = {name: getattr(self, name) for name in _DRAWN_BY}
        sampler = EpisodeSampler(self.labels, groups=self.groups, **settings)
        episodes = sampler.draw(self.count)
        if episodes_checksum(episodes) != self.checksum:
            raise InputError(
                "the episodes drawn from this manifest differ from those it was written for: the file was edited, or "
                "written by a version of cplsr with other draws; write it again"
            )
        if identities is None:
            return episodes
        places = self._places_in(identities)
        return Episodes(places[episodes.support], places[episodes.query], episodes.classes, episodes.targets)

    def _places_in(self, identities: Sequence[str]) -> Shaped[ndarray, "images"]:
        index_of = {identity: index for index, identity in enumerate(identities)}
        missing = [identity for identity in self.identities if identity not in index_of]
        if missing:
            raise InputError(
                f"{len(missing)} of the manifest's {len(self.identities)} images are not among the "
                f"{len(index_of)} given, the first is {missing[0]!r}: open the images that the manifest was written for"
            )
        return np.array([index_of[identity] for identity in self.identities], dtype=np.int64)


def episodes_checksum(episodes: Episodes) -> str:
    """SHA-256 of the index arrays, the same on every platform."""
    digest = hashlib.sha256()
    uneven = () if episodes.targets is None else (episodes.targets,)
    for array in (episodes.support, episodes.query, *uneven):
        digest.update(f"{array.shape}".encode())
        digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    return digest.hexdigest()


def _plain(values: Sequence[Hashable] | ndarray) -> tuple[str | int, ...]:
    """As JSON keeps them: Python's own strings and whole numbers."""
    plain = tuple(values.tolist() if isinstance(values, ndarray) else values)
    strange = next((value for value in plain if not isinstance(value, str | int)), None)
    if strange is not None:
        raise InputError(f"a manifest keeps names and whole numbers as labels and groups, not {strange!r}")
    return plain
