"""mini-ImageNet and tiered-ImageNet: splits by class, from lists of WordNet ids that ship with the package."""

from __future__ import annotations

import csv
import importlib.resources
from collections.abc import Collection
from pathlib import Path

from cplsr.data.domain import Domain
from cplsr.data.folder import describe, open_folder, subfolders
from cplsr.data.hub import Address, find_on_hub, find_saved, is_saved_data_set
from cplsr.data.listing import Row, domain_from_rows
from cplsr.errors import InputError

SPLITS = ("train", "val", "test")
OTHER_NAMES = {"train": ("train",), "val": ("val", "validation"), "test": ("test",)}


def class_list(name: str, split: str) -> tuple[str, ...]:
    """Return the WordNet ids of one split of `mini-imagenet` or `tiered-imagenet`.

    Example:
        >>> len(class_list("mini-imagenet", "train"))
        64
    """
    if split not in SPLITS:
        raise InputError(f"{name} has no split {split!r}: give one of {', '.join(SPLITS)}")
    file = importlib.resources.files("cplsr.data") / "class_lists" / f"{name}-{split}.txt"
    return tuple(file.read_text(encoding="utf-8").split())


def open_wordnet_split(name: str, source: str, split: str, strict: bool) -> Domain:
    """Open one split from csv splits with images/, folders named by WordNet id, or a data set with such labels."""
    wanted = class_list(name, split)
    if source.startswith("hf:"):
        return _open_data_set(name, source, split, wanted)
    root = Path(source).expanduser()
    if not root.is_dir():
        raise InputError(f"{root} is not a folder: give the folder that {name} was unpacked into, or hf:user/name")
    if is_saved_data_set(root):
        return _open_data_set(name, root, split, wanted)
    table = _find_table(root, split)
    if table is not None:
        return _open_table(root, table, wanted, strict)
    return _open_folders(name, root, split, wanted, strict)


def _find_table(root: Path, split: str) -> Path | None:
    names = [f"{other}.csv" for other in OTHER_NAMES[split]]
    folders = [root, *(root / folder for folder in ("split", "splits", "csv", "images"))]
    return next((folder / name for folder in folders for name in names if (folder / name).is_file()), None)


def _open_table(root: Path, table: Path, wanted: tuple[str, ...], strict: bool) -> Domain:
    """The widespread layout: a csv of filename,label per split and all the images in one folder."""
    folder = root / "images" if (root / "images").is_dir() else root
    with table.open(encoding="utf-8-sig", newline="") as stream:
        lines = list(csv.reader(stream))
    if not lines or len(lines[0]) < 2:
        raise InputError(f"{table} has no columns filename,label: take the csv files that come with the images")
    known = set(wanted)
    rows = [Row(line[0], line[1]) for line in lines[1:] if len(line) >= 2]
    foreign = sorted({row.label for row in rows} - known)
    if foreign:
        raise InputError(
            f"{table} lists {len(foreign)} classes that are not of this split ({', '.join(foreign[:3])}): "
            "take the csv files of the split by Ravi and Larochelle"
        )
    return domain_from_rows(rows, folder, name=table.stem, classes=wanted, strict=strict).without_empty_classes()


def _open_folders(name: str, root: Path, split: str, wanted: tuple[str, ...], strict: bool) -> Domain:
    """Folders by WordNet id: all in one place (also in `train/`, as ImageNet has them) or one folder per split."""
    known = set(wanted)
    together = [folder for folder in (root, root / "images", root / "train") if folder.is_dir()]
    apart = [folder for folder in (root / other for other in OTHER_NAMES[split]) if folder.is_dir()]
    for folder in together:
        if known <= set(subfolders(folder)):
            return open_folder(folder, classes=wanted, strict=strict)
    for folder in (*apart, root):
        if known & set(subfolders(folder)):
            return open_folder(folder, classes=wanted, strict=strict)
    raise InputError(
        f"{root} has no folders named by WordNet id for the {split} split of {name} (such as {wanted[0]}), "
        f"no {split}.csv and no parquet files: found {describe(root)}"
    )


def _open_data_set(name: str, source: str | Path, split: str, wanted: tuple[str, ...]) -> Domain:
    """A hub or parquet data set labeled by WordNet id: one split with all classes, or splits by class."""
    if isinstance(source, str):
        address = source.removeprefix("hf:")
        if name == "mini-imagenet" and Address.parse(address).repository.lower() == "timm/mini-imagenet":
            raise _split_by_image(name, source, "train", split)
        data_set = find_on_hub(address)
    else:
        data_set = find_saved(source)
    chosen = _matching_split(name, source, split, data_set.splits)
    domain = data_set.open(chosen)
    present = set(domain.classes)
    foreign = {other: present & set(class_list(name, other)) for other in SPLITS if other != split}
    if len(data_set.splits) > 1 and any(foreign.values()):
        raise _split_by_image(name, source, chosen, split)
    kept = [wnid for wnid in wanted if wnid in present]
    if not kept:
        raise InputError(
            f"{source} has classes such as {domain.classes[0]}, but none of the {len(wanted)} WordNet ids of "
            f"the {split} split of {name} (such as {wanted[0]}): give a data set that is labeled by them"
        )
    return domain.only_classes(kept)


def _matching_split(name: str, source: str | Path, split: str, available: Collection[str]) -> str:
    if len(available) == 1:
        return next(iter(available))
    for other in OTHER_NAMES[split]:
        if other in available:
            return other
    raise InputError(f"{source} has the splits {', '.join(available)}, but {name} needs {', '.join(SPLITS)}")


def _split_by_image(name: str, source: str | Path, split: str, wanted: str) -> InputError:
    others = " and ".join(other for other in SPLITS if other != wanted)
    counts = "/".join(str(len(class_list(name, other))) for other in SPLITS)
    return InputError(
        f"{source} is split by image, not by class: its split {split!r} holds classes that {name} keeps for {others}, "
        f"so what is learned in training would be tested on the same classes; give {name} as csv splits with images/, "
        f"as a folder per class, or as a data set whose splits hold {counts} classes"
    )
