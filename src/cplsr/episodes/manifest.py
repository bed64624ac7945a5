"""A file that says exactly which images a set of episodes holds, for somebody with the same images elsewhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from jaxtyping import Shaped
from numpy import ndarray

from cplsr.episodes.sampling import Episodes, EpisodeSampler
from cplsr.errors import InputError
from cplsr.files import write_json
from cplsr.settings.episodes import Queries

FORMAT = "cplsr episodes 1"


@dataclass(frozen=True)
class EpisodeManifest:
    """All that a set of episodes depends on, and a checksum of the outcome.

    The index arrays themselves are not stored: they are drawn again, and the checksum says whether they came out the
    same. Labels and groups are names or whole numbers, one per image, in the order of `identities`.
    """

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

    def episodes(self, identities: Sequence[str] | None = None) -> Episodes:
        """The episodes, as indices into `identities` where these are given, else into the manifest's own list."""
        sampler = EpisodeSampler(
            self.labels,
            way=self.way,
            shot=self.shot,
            query=self.query,
            seed=self.seed,
            groups=self.groups,
            queries=self.queries,
        )
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

    def write(self, path: Path | str) -> None:
        """Write the manifest as JSON, whole or not at all."""
        write_json(path, {"format": FORMAT, **asdict(self)})

    def _places_in(self, identities: Sequence[str]) -> Shaped[ndarray, "images"]:
        index_of = {identity: index for index, identity in enumerate(identities)}
        missing = [identity for identity in self.identities if identity not in index_of]
        if missing:
            raise InputError(
                f"{len(missing)} of the manifest's {len(self.identities)} images are not among the "
                f"{len(index_of)} given, the first is {missing[0]!r}: open the images that the manifest was written for"
            )
        return np.array([index_of[identity] for identity in self.identities], dtype=np.int64)


def make_manifest(
    labels: Sequence[str | int] | Shaped[ndarray, "images"],
    identities: Sequence[str],
    *,
    count: int,
    way: int = 5,
    shot: int = 1,
    query: int = 15,
    seed: int = 0,
    groups: Sequence[str | int] | Shaped[ndarray, "images"] | None = None,
    queries: Queries = "balanced",
) -> EpisodeManifest:
    """Draw episodes and note what they depend on."""
    if len(labels) != len(identities):
        raise InputError(f"{len(labels)} labels and {len(identities)} identities were given: give one each per image")
    sampler = EpisodeSampler(labels, way=way, shot=shot, query=query, seed=seed, groups=groups, queries=queries)
    episodes = sampler.draw(count)
    return EpisodeManifest(
        way=way,
        shot=shot,
        query=query,
        count=count,
        seed=seed,
        identities=tuple(identities),
        labels=_plain(labels),
        groups=None if groups is None else _plain(groups),
        checksum=episodes_checksum(episodes),
        queries=queries,
    )


def read_manifest(path: Path | str) -> EpisodeManifest:
    """Read what `EpisodeManifest.write` wrote, earlier versions included."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as an episode manifest: {error}") from error
    names = {field.name for field in fields(EpisodeManifest)}
    known = isinstance(content, dict) and content.get("format") == FORMAT
    if not known or set({"queries": "balanced", **content}) != names | {"format"}:
        raise InputError(f"{path} is not an episode manifest of the format {FORMAT!r}: give a file written by cplsr")
    content["identities"], content["labels"] = tuple(content["identities"]), tuple(content["labels"])
    content["groups"] = None if content["groups"] is None else tuple(content["groups"])
    return EpisodeManifest(**{name: content[name] for name in names if name in content})


def episodes_checksum(episodes: Episodes) -> str:
    """SHA-256 of the index arrays, the same on every platform."""
    digest = hashlib.sha256()
    uneven = () if episodes.targets is None else (episodes.targets,)
    for array in (episodes.support, episodes.query, *uneven):
        digest.update(f"{array.shape}".encode())
        digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    return digest.hexdigest()


def _plain(values: Sequence[str | int] | ndarray) -> tuple[str | int, ...]:
    """As JSON keeps them: Python's own strings and whole numbers."""
    plain = tuple(values.tolist() if isinstance(values, ndarray) else values)
    strange = next((value for value in plain if not isinstance(value, str | int)), None)
    if strange is not None:
        raise InputError(f"a manifest keeps names and whole numbers as labels and groups, not {strange!r}")
    return plain
