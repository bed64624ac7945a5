"""Embeddings on disk: every image is embedded once per model, whatever is killed, damaged or run twice at a time.

One folder per model holds immutable files (shards), each with some images' embeddings. A shard is named after the hash
of its own bytes, so damage shows, and appears whole or not at all. Processes only ever add shards; two that embed the
same images at once write some of them twice, which costs room but no correctness.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64
from numpy import ndarray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as tensor_bytes

from cplsr.declared import read_record
from cplsr.environment import cache_folder
from cplsr.errors import InputError
from cplsr.files import UnwritableError, new_file, write_json
from cplsr.records.adapter import AdapterInfo

if TYPE_CHECKING:
    from cplsr.backbones.backbone import Backbone

PREPROCESSING = 1
"""Raised when the way from file to pixels changes, so that older embeddings are not used again."""

DIGEST_BYTES = 16
SETTINGS = "settings.json"
SHARDS = "*.safetensors"

IMAGES_PER_SHARD = 2048
"""How many new embeddings are kept at a time: what a killed run loses at most."""

SHARDS_HELD = 2
"""Images come in the order in which they were kept, mostly, so that few shards at a time are needed."""


@dataclass(frozen=True)
class EmbeddingKey:
    """Everything an image's embedding depends on besides the image."""

    backbone: str
    adapter: str
    image_size: int
    pooling: str
    position_interpolation: str
    precision: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    pooled_layers: tuple[int, ...] = ()
    """With `depth` pooling, which blocks."""
    views: str = "plain"
    """How often the image was looked at."""
    source: str = ""
    """Where the backbone came from: told by `cplsr cache info`, and no part of the key."""

    @classmethod
    def of(cls, backbone: Backbone) -> EmbeddingKey:
        """The key of a backbone with the adapter that is on it now."""
        told: dict[str, Any] = {**backbone.description()}
        own = {field.name: told[field.name] for field in fields(cls) if field.name in told}
        return cls(backbone=backbone.fingerprint, adapter=backbone.adapter_fingerprint or "frozen", **own)

    def require(self, model: Mapping[str, Any], folder: Path) -> None:
        """Refuse the vectors in a folder if they were made by another model, and say what differs."""
        own, theirs = (dict(_as_read(each)) for each in (asdict(self), model))
        own_source, their_source = own.pop("source", ""), theirs.pop("source", "")
        differing = [name for name in own | theirs if own.get(name) != theirs.get(name)]
        if not differing:
            return
        told = [
            f"backbone {their_source!r} where {own_source!r} is wanted"
            if name == "backbone"
            else f"{name} {_shown(name, theirs)} where {_shown(name, own)} is wanted"
            for name in differing
            if name != "pooled_layers" or "pooling" not in differing
        ]
        raise InputError(
            f"the vectors in {folder} are of another model ({'; '.join(told)}): make fitting ones with cplsr embed … "
            f"--backbone {own_source}{_flags(own, differing)}, or give what these were made with here, "
            f"--backbone {their_source}{_flags(theirs, differing)}"
        )

    @property
    def number_format(self) -> type[np.floating[Any]]:
        """What embeddings are rounded to: depth embeddings, which are long and of length one, to half the bytes."""
        return np.float16 if self.pooling == "depth" else np.float32

    @property
    def folder_name(self) -> str:
        """Hash of the key."""
        parts = {**asdict(self), "preprocessing": PREPROCESSING}
        del parts["source"]
        if not self.pooled_layers:  # as before there was depth pooling, so that what is cached stays known
            del parts["pooled_layers"]
        if self.views == "plain":  # and before there were views
            del parts["views"]
        return name_of(parts)


def name_of(parts: Mapping[str, Any]) -> str:
    """A name for what is kept under these parts of a key: a hash of them, whatever their order."""
    return _checksum(json.dumps(parts, sort_keys=True).encode())


def _shown(name: str, model: Mapping[str, Any]) -> Any:
    value = model.get(name)
    return f"the one packaged with the embedded backbone ({value[:8]})" if value == _packaged()[0] else value


def _flags(model: Mapping[str, Any], differing: Sequence[str]) -> str:
    """The options of a model that differ from another's, as they are typed."""
    adapter = dict([("frozen", "frozen"), _packaged()]).get(model["adapter"], "FOLDER")
    typed = {"adapter": adapter, "pooling": model["pooling"], "image_size": model["image_size"]}
    typed["precision"] = model["precision"]
    if "pooling" not in differing:
        typed["pooled_layers"] = " ".join(map(str, model.get("pooled_layers", ())))
    options = ((name.removeprefix("pooled_").replace("_", "-"), typed[name]) for name in typed if name in differing)
    return "".join(f" --{name} {value}" for name, value in options)


def _packaged() -> tuple[str, str]:
    """Fingerprint and folder of the adapter that comes with the embedded backbone."""
    from cplsr.backbones.load import EMBEDDED_FILE

    folder = EMBEDDED_FILE.parent / "adapter"
    return AdapterInfo.read(folder).fingerprint, str(folder)


def _as_read(model: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The parts of a key as they are read back from json, with what was not told at first; empty ones left out."""
    parts = {"preprocessing": PREPROCESSING, "views": "plain", **model}
    listed = ((name, list(value) if isinstance(value, tuple) else value) for name, value in parts.items())
    return ((name, value) for name, value in listed if value != [])


@dataclass(frozen=True)
class CachedModel:
    """What the cache holds for one model: its settings as far as they are known, images, files and bytes."""

    settings: dict[str, object]
    images: int
    files: int
    bytes: int


class EmbeddingCache:
    """Embeddings by model and image, in `folder`: by default `embeddings` in the cache folder of this package."""

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = cache_folder() / "embeddings" if folder is None else Path(folder)

    def read(
        self, key: EmbeddingKey, identities: Sequence[str], dim: int
    ) -> tuple[Bool[ndarray, "images"], Float32[ndarray, "images dim"]]:
        """Which images are known, and a matrix with the embeddings of those; the other rows hold no meaning."""
        return CachedRows(self, key, identities, dim).read(np.arange(len(identities)))

    def write(self, key: EmbeddingKey, identities: Sequence[str], vectors: Float32[ndarray, "images dim"]) -> None:
        """Add embeddings. A disk that is full or not writable is a warning: the caller has its embeddings already."""
        images = np.frombuffer(b"".join(digests_of(identities)), dtype=np.uint8).reshape(-1, DIGEST_BYTES)
        content = tensor_bytes({"images": images, "embeddings": np.ascontiguousarray(vectors, key.number_format)})
        folder = self.folder / key.folder_name
        try:
            if not (folder / SETTINGS).is_file():
                write_json(folder / SETTINGS, asdict(key))
            with new_file(folder / f"{_checksum(content)}.safetensors", "wb") as stream:
                stream.write(content)
        except UnwritableError as error:
            warnings.warn(f"embeddings could not be kept in {folder} ({error.reason})", stacklevel=2)

    def contents(self) -> list[CachedModel]:
        """What is held for each model."""
        folders = sorted(folder for folder in self.folder.glob("*") if folder.is_dir())
        return [_describe(folder) for folder in folders]

    def clear(self) -> int:
        """Remove everything; returns how many bytes that were."""
        size = sum(model.bytes for model in self.contents())
        for folder in self.folder.glob("*"):
            if folder.is_dir():
                shutil.rmtree(folder, ignore_errors=True)
        return size


class CachedRows:
    """What the cache knows of some images: looked up once, read as it is asked for, and added to."""

    def __init__(self, cache: EmbeddingCache, key: EmbeddingKey, identities: Sequence[str], dim: int) -> None:
        self._cache, self._key, self._identities, self._dim = cache, key, identities, dim
        self._files = sorted((cache.folder / key.folder_name).glob(SHARDS))
        self._shard, self._row = self._places()
        self._open = lru_cache(SHARDS_HELD)(lambda number: read_shard(self._files[number], dim))
        self._unkept: dict[int, Float32[ndarray, "dim"]] = {}

    @property
    def known(self) -> Bool[ndarray, "images"]:
        """Which of the images the cache has; a damaged shard shows only when it is read."""
        return self._shard >= 0

    def read(self, indices: Int64[ndarray, "some"]) -> tuple[Bool[ndarray, "some"], Float32[ndarray, "some dim"]]:
        """Which of these images are known after all, and their embeddings; the other rows hold no meaning."""
        vectors = np.empty((len(indices), self._dim), dtype=np.float32)
        known = np.zeros(len(indices), dtype=bool)
        shards = self._shard[indices]
        for number in np.unique(shards[shards >= 0]).tolist():
            if (kept := self._open(number)) is not None:
                places = np.flatnonzero(shards == number)
                known[places], vectors[places] = True, kept[self._row[indices[places]]]
        return known, vectors

    def add(
        self, indices: Int64[ndarray, "some"], vectors: Float32[ndarray, "some dim"]
    ) -> Float32[ndarray, "some dim"]:
        """Take new embeddings, to be kept; returned as the cache will give them back."""
        rounded = vectors.astype(self._key.number_format).astype(np.float32)
        self._unkept.update(zip(indices.tolist(), rounded, strict=True))
        if len(self._unkept) >= IMAGES_PER_SHARD:
            self.keep()
        return rounded

    def keep(self) -> None:
        """Write what is new to the cache."""
        if self._unkept:
            identities = [self._identities[index] for index in self._unkept]
            self._cache.write(self._key, identities, np.stack(list(self._unkept.values())))
        self._unkept.clear()

    def _places(self) -> Int64[ndarray, "2 images"]:
        """The number of the shard that has each image, and its row there; -1 where none has."""
        wanted = digests_of(self._identities)
        places = dict.fromkeys(wanted, (-1, -1))
        for number, file in enumerate(self._files):
            try:
                digests = _digests_in(file)
            except (OSError, SafetensorError, KeyError):
                read_shard(file, self._dim)  # which says what is wrong, and removes what is damaged
                continue
            places.update((digest, (number, row)) for row, digest in enumerate(digests) if digest in places)
        return np.array([places[digest] for digest in wanted], dtype=np.int64).reshape(-1, 2).T


def read_shard(file: Path, dim: int) -> Float[ndarray, "images dim"] | None:
    """The embeddings of a shard; `None`, and the file removed, where it is damaged."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:  # cleared by another process a moment ago
        return None
    except OSError as error:
        warnings.warn(f"cached embeddings in {file} cannot be read and are made again: {error}", stacklevel=3)
        return None
    if _checksum(content) == file.stem:
        with suppress(SafetensorError, KeyError):
            vectors = parse_tensors(content)["embeddings"]
            if vectors.ndim == 2 and vectors.shape[1] == dim:
                return vectors
    warnings.warn(f"cached embeddings in {file} are damaged and are made again", stacklevel=3)
    file.unlink(missing_ok=True)
    return None


def _describe(folder: Path) -> CachedModel:
    try:
        settings: dict[str, object] = read_record(folder / SETTINGS, dict, "settings of embeddings")
    except InputError:
        settings = {}
    images: set[bytes] = set()
    files = size = 0
    for file in folder.glob(SHARDS):
        with suppress(OSError, SafetensorError, KeyError):
            images.update(_digests_in(file))
            files, size = files + 1, size + file.stat().st_size
    return CachedModel(settings, len(images), files, size)


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def digests_of(identities: Sequence[str]) -> list[bytes]:
    """What shards know images by."""
    texts = (identity.encode("utf-8", "surrogateescape") for identity in identities)
    return [hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest() for text in texts]


def _digests_in(file: Path) -> list[bytes]:
    """The same of a shard; no more of it is read."""
    with safe_open(file, framework="numpy") as tensors:
        return [digest.tobytes() for digest in tensors.get_tensor("images")]
