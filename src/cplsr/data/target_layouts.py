"""The four target data sets of the BSCD-FSL benchmark, read as they are downloaded."""

from __future__ import annotations

import csv
import importlib.resources
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from cplsr.data.domain import Domain
from cplsr.data.folder import describe, open_folder, subfolders
from cplsr.data.image_file import is_image_name
from cplsr.data.listing import Row, domain_from_rows
from cplsr.errors import InputError

CHESTX_CLASSES = ("Atelectasis", "Cardiomegaly", "Effusion", "Infiltration", "Mass", "Nodule", "Pneumothorax")
ISIC_CLASSES = ("MEL", "NV", "BCC", "AKIEC", "BKL", "DF", "VASC")
EUROSAT_CLASSES = (
    *("AnnualCrop", "Forest", "HerbaceousVegetation", "Highway", "Industrial"),
    *("Pasture", "PermanentCrop", "Residential", "River", "SeaLake"),
)
SEARCH_DEPTH = 3


def open_eurosat(folder: str, split: str, strict: bool) -> Domain:
    """Open EuroSAT: `2750/<class>/*.jpg`, `EuroSAT_RGB/<class>/*.jpg`, or the folder of the classes itself."""
    return _open_class_folders("EuroSAT", _root(folder), EUROSAT_CLASSES, strict)


def open_cropdisease(folder: str, split: str, strict: bool) -> Domain:
    """Open CropDisease: `train/<class>/*` of the plant-disease set, or the folder of the classes itself."""
    file = importlib.resources.files("cplsr.data") / "class_lists" / "cropdisease.txt"
    return _open_class_folders("CropDisease", _root(folder), file.read_text(encoding="utf-8").splitlines(), strict)


def open_chestx(folder: str, split: str, strict: bool) -> Domain:
    """Open ChestX: the images with exactly one finding, if it is one of the benchmark's seven; groups are patients."""
    root = _root(folder)
    table = _find_file(root, "Data_Entry_2017*.csv")
    if table is None:
        return _open_class_folders("ChestX", root, CHESTX_CLASSES, strict, "and no Data_Entry_2017.csv")
    names, rows = set(CHESTX_CLASSES), []
    where = _image_paths(root)
    for line in _read_table(table, ("Image Index", "Finding Labels", "Patient ID")):
        finding, image = line["Finding Labels"], line["Image Index"]
        if finding in names:  # several findings are joined by "|", so that they are never among the names
            rows.append(Row(where.get(image, image), finding, line["Patient ID"]))
    return domain_from_rows(rows, root, name="ChestX", classes=CHESTX_CLASSES, strict=strict).without_empty_classes()


def open_isic(folder: str, split: str, strict: bool) -> Domain:
    """Open ISIC 2018 task 3, its training images; groups are the lesions, if their csv is there."""
    root = _root(folder)
    table = _find_file(root, "ISIC2018_Task3_Training_GroundTruth*.csv")
    if table is None:
        return _open_class_folders("ISIC", root, ISIC_CLASSES, strict, "and no ISIC2018_Task3_Training_GroundTruth.csv")
    groupings = _find_file(root, "ISIC2018_Task3_Training_LesionGroupings*.csv")
    lesions = {}
    if groupings is not None:
        lesions = {line["image"]: line["lesion_id"] for line in _read_table(groupings, ("image", "lesion_id"))}
    where = {os.path.splitext(name)[0]: path for name, path in _image_paths(root).items()}  # noqa: PTH122
    rows = []
    for number, line in enumerate(_read_table(table, ("image", *ISIC_CLASSES)), start=2):
        marked = [name for name in ISIC_CLASSES if float(line[name] or 0) == 1]
        if len(marked) != 1:
            raise InputError(f"{table}, line {number}: {len(marked)} classes are marked with 1, but one is wanted")
        image = line["image"]
        rows.append(Row(where.get(image, f"{image}.jpg"), marked[0], lesions.get(image)))
    return domain_from_rows(rows, root, name="ISIC", classes=ISIC_CLASSES, strict=strict).without_empty_classes()


def _root(folder: str) -> Path:
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise InputError(f"{root} is not a folder: give the folder that the data set was unpacked into")
    return root


def _plain(name: str) -> str:
    """A class name as far as it matters: downloads differ in case, spaces and underscores."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _folders_below(root: Path) -> Iterator[Path]:
    """The folder and those below it, nearest first; `train` before its siblings, and none twice by way of links."""
    level, seen = [root], {root.resolve()}
    for _ in range(SEARCH_DEPTH):
        yield from level
        inner = {(folder / name).resolve(): folder / name for folder in level for name in subfolders(folder)}
        level = [folder for resolved, folder in inner.items() if resolved not in seen]
        level.sort(key=lambda folder: (folder.name.lower() != "train", folder))
        seen.update(inner)


def _open_class_folders(title: str, root: Path, classes: Sequence[str], strict: bool, lacking: str = "") -> Domain:
    """The nearest folder at or below `root` in which at least half of the classes have a folder of their own."""
    wanted = {_plain(name): name for name in classes}
    for folder in _folders_below(root):
        matching = [name for name in subfolders(folder) if _plain(name) in wanted]
        if 2 * len(matching) >= len(wanted):
            return open_folder(folder, name=title, classes=matching, strict=strict)
    raise InputError(
        f"{root} does not look like {title}: no folders named {', '.join(list(classes)[:3])}, … {lacking}".rstrip()
        + f"; found {describe(root)}. See `cplsr data list` for the layout"
    )


def _find_file(root: Path, pattern: str) -> Path | None:
    return next((file for folder in _folders_below(root) for file in sorted(folder.glob(pattern))), None)


def _image_paths(root: Path) -> dict[str, str]:
    """Paths relative to `root` of the images at most three folders down, by file name."""
    paths: dict[str, str] = {}
    for folder in _folders_below(root):
        relative = os.path.relpath(folder, root)
        with os.scandir(folder) as entries:
            for entry in entries:
                if is_image_name(entry.name):
                    paths.setdefault(entry.name, entry.name if relative == "." else f"{relative}/{entry.name}")
    return paths


def _read_table(table: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    with table.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        missing = [column for column in columns if column not in (reader.fieldnames or [])]
        if missing:
            raise InputError(f"{table} has no column {missing[0]!r}: download it again, this is not the original")
        return list(reader)
