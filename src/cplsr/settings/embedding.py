"""How images are read and embedded; no figure depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cplsr.declared import Declared, between


@dataclass(frozen=True)
class ThreadSettings(Declared):
    """Threads of one process."""

    threads: Annotated[int, between(1, 1024)] | None = None
    """Threads of torch. Default: all cores. A resumed run repeats the same numbers only with the same count."""


@dataclass(frozen=True)
class DecodingSettings(Declared):
    """Processes beside the main one."""

    workers: Annotated[int, between(0, 256)] | None = None
    """Processes that decode images. Default: up to 2."""


@dataclass(frozen=True)
class EmbeddingSettings(DecodingSettings):
    """Images through a backbone."""

    batch_size: Annotated[int, between(1, 65_536)] = 64
    """Images embedded at a time."""


@dataclass(frozen=True)
class CacheSettings(Declared):
    """What is kept between commands."""

    cache: bool = True
    """Look embeddings up in the cache and keep new ones there."""


@dataclass(frozen=True)
class MeasuringSettings(CacheSettings, EmbeddingSettings):
    """Whole domains through a backbone."""

    strict: bool = False
    """Stop at an image that cannot be read instead of leaving it out."""
