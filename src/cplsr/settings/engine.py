"""Where many pieces of work are done: in processes of this machine, or on a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from cplsr.declared import Declared, between
from cplsr.settings.embedding import EmbeddingSettings


@dataclass(frozen=True)
class ClusterSettings(Declared):
    """Which ray is used, and what a worker of it gets."""

    ray_address: str | None = None
    """An existing cluster. Default: RAY_ADDRESS, else one of this machine alone."""
    ray_gpus: Annotated[float, between(0, 1000)] = 0.0
    """GPUs for each worker of ray."""


@dataclass(frozen=True)
class ShardingSettings(ClusterSettings, EmbeddingSettings):
    """How images are embedded by many processes."""

    engine: Literal["local", "ray"] = "local"
    """Processes of this machine, or tasks of ray on any number of machines that see the same files."""
    processes: Annotated[int, between(1, 10_000)] | None = None
    """Processes that embed, each with a backbone of its own. Default: one for every core (and --threads of them)."""
    threads: Annotated[int, between(1, 1024)] = 1
    """Threads of each process; the last digits may depend on it."""
    workers: Annotated[int, between(0, 256)] | None = None
    """Further processes that decode images for each of them, for a GPU. Default: none, each decodes its own."""
    shard_images: Annotated[int, between(1, 1_000_000)] = 1024
    """Images of a file of vectors: what a killed process loses at most."""
    strict: bool = False
    """Stop at an image that cannot be read instead of leaving it out."""
