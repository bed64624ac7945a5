"""`cplsr embed`: images to vectors on disk, by many processes or machines."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import tyro

from cplsr.cli.classify import AUTO, ClassifierBackbone
from cplsr.cli.options import parse
from cplsr.errors import InputError, counted
from cplsr.records.vectors import VectorsInfo
from cplsr.settings.engine import ShardingSettings


@dataclass(frozen=True, kw_only=True)
class Embed(ShardingSettings, ClassifierBackbone):
    """Embed images and keep the vectors, for `classify`, `check` and `evaluate` in place of the images.

    An interrupted run is continued by the same command. The files are the same whatever the engine and the number of
    processes. By default the vectors are those `classify` works with; `evaluate` wants --adapter frozen and the
    pooling it is given (cls).
    """

    sources: tyro.conf.Positional[tuple[str, ...]] = ()
    """What to embed: a folder with a folder per class, a csv with the columns path,label, tar files in webdataset's
    layout, or any other data set that `cplsr data list` knows."""
    out: Path | None = None
    """The folder for the vectors."""
    unlabeled: bool = False
    """Take all images without labels: of a folder, at any depth, of a csv with the column path, of tar files, of
    parquet files or of hf:user/name."""


def main(arguments: list[str]) -> int:
    """Parse the options, embed, say what came of it."""
    options = parse(Embed, "embed", arguments)
    if not options.sources:
        raise InputError("there is nothing to embed: give a folder, a csv, tar files or another data set")
    if options.out is None:
        raise InputError("there is no folder for the vectors: give --out DIR")
    from cplsr.data.parts import open_parts
    from cplsr.data.query_files import unlabeled_parts
    from cplsr.evaluation.shards import embed_to_folder

    sources = [*map(unlabeled_parts if options.unlabeled else open_parts, options.sources)]
    chosen = ClassifierBackbone.of(options)
    if chosen.backbone == AUTO:  # settled here, once for all processes
        chosen = dataclasses.replace(chosen, backbone=chosen.load().source)
    info, new = embed_to_folder(sources, chosen.load, options.out, ShardingSettings.of(options))
    print(summary_text(info, new, options.out))
    return 0


def summary_text(info: VectorsInfo, new: int, out: Path) -> str:
    """Say how many vectors there are, how many of them are new, and what has none."""
    images, failed = info.images or 0, info.failed or 0
    lines = [f"{images - failed:,} vectors of {info.dim:,} numbers in {counted(info.shards or 0, 'file')}, in {out}"]
    if new < images:
        lines.append(f"{images - new:,} images were embedded already")
    if failed:
        lines.append(f"could not be read: {failed:,}")
    if info.skipped:
        from cplsr.data.listing import skipped_by_kind

        lines.append(skipped_by_kind(info.name, info.skipped))
    return "\n".join(lines)
