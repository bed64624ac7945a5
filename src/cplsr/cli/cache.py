"""`cplsr cache`: what is kept on disk, and removing it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

import cplsr
from cplsr.cli.options import parse
from cplsr.cli.terminal import print_plain, terminal
from cplsr.declared import Declared

OTHERS = {"images": "decoded images", "statistics": "class statistics", "adaptations": "adapted episodes",
          "hashes": "hashes of image files", "onnxruntime-web-*": "files of onnxruntime-web"}  # fmt: skip
"""Folders in the cache beside the embeddings, by pattern, and what they hold."""


@dataclass(frozen=True)
class Cache(Declared):
    """Show or remove what is kept to save time: embeddings, decoded images, statistics and the like."""

    action: tyro.conf.Positional[Literal["info", "clear"]]
    """`info` lists it; `clear` removes all of it. It is made again when needed."""


def main(arguments: list[str]) -> int:
    """Parse the action and do it."""
    {"info": info, "clear": clear}[parse(Cache, "cache", arguments).action]()
    return 0


def info() -> None:
    """List what is kept for each model."""
    from rich.table import Table

    cache = cplsr.EmbeddingCache()
    models = cache.contents()
    console = terminal()
    total = sum(model.bytes for model in models)
    print_plain(console, f"embeddings in {cache.folder}: {_size(total)}")
    if models:
        table = Table("backbone", "adapter", "pooling", "pixels", "precision", "images", "files", "size")
        for model in models:
            names = ("source", "adapter", "pooling", "image_size", "precision")
            known = [str(model.settings.get(name, "?")) for name in names]
            known[1] = known[1] if known[1] in ("frozen", "?") else known[1][:8]
            table.add_row(*known, f"{model.images:,}", str(model.files), _size(model.bytes))
        console.print(table)
    for folder, what in _other_folders().items():
        print_plain(console, f"{what} in {folder}: {_size(_bytes_in(folder))}")


def clear() -> None:
    """Remove everything and say how much that was."""
    cache = cplsr.EmbeddingCache()
    print(f"removed {_size(cache.clear())} of embeddings from {cache.folder}")
    for folder, what in _other_folders().items():
        size = _bytes_in(folder)
        shutil.rmtree(folder)
        print(f"removed {_size(size)} of {what} from {folder}")


def _other_folders() -> dict[Path, str]:
    from cplsr.environment import cache_folder

    return {folder: what for name, what in OTHERS.items() for folder in sorted(cache_folder().glob(name))}


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _size(count: int) -> str:
    amount, units = float(count), ["bytes", "KB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:.0f} {units[0]}" if units[0] == "bytes" else f"{amount:.1f} {units[0]}"
