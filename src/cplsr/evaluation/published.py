"""The paper's tables and one of methods since as data, and which of the paper's figures may stand beside one's own.

The tables are files in `published_tables`. Figures are shipped as printed; where the paper contradicts itself the cells
hold, and a note of the table says so.
"""

from __future__ import annotations

import importlib.resources
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import msgspec

from cplsr.data.catalog import ALL, CATALOG, Expected
from cplsr.errors import InputError
from cplsr.records.estimate import Estimate
from cplsr.records.results import FROZEN, Results

PAPER_TABLES = ("mini", "tiered", "ablation", "ablation-details")
TABLES = (*PAPER_TABLES, "since")

MINI, TIERED = "mini", "tiered"
"""The tables of all systems, by base set."""
WAY = 5
IMAGE_SIZE = 224
VIT_S16 = {"layers": 12, "dim": 384, "heads": 6, "patch_size": 16}
"""Shape of the paper's backbone."""

ROUNDING = 0.01
"""What an average of unrounded figures may differ from the average of the rounded ones, both given to 0.01."""


@final
@dataclass(frozen=True)
class PublishedRow:
    """One system at one shot.

    Attributes:
        cells: Accuracy in percent by target, with the half-width where one was printed; none where only the average is
            known.
        architecture: The backbone, where the table names it.
    """

    system: str
    shot: int
    cells: Mapping[str, Estimate]
    average: float
    architecture: str | None = None

    @property
    def mean(self) -> float:
        """The average of the cells."""
        return sum(cell.mean for cell in self.cells.values()) / len(self.cells)

    @property
    def average_disagrees(self) -> bool:
        """Whether the printed average cannot be that of the cells."""
        return bool(self.cells) and abs(self.mean - self.average) > ROUNDING + 1e-9


@final
@dataclass(frozen=True)
class PublishedTable:
    """A table of published figures; rows in the order printed.

    Attributes:
        base: The data set that the systems were trained on.
        notes: Where the print is incomplete or wrong.
    """

    name: str
    title: str
    base: str
    targets: tuple[str, ...]
    rows: tuple[PublishedRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def shots(self) -> tuple[int, ...]:
        """Shots in order of appearance."""
        return tuple(dict.fromkeys(row.shot for row in self.rows))

    def row(self, system: str, shot: int) -> PublishedRow | None:
        """The row of a system at a shot, if there is one."""
        return next((row for row in self.rows if (row.system, row.shot) == (system, shot)), None)


@cache
def published_table(name: str) -> PublishedTable:
    """A table by name: the paper's mini, tiered, ablation or ablation-details, or since, of later methods."""
    if name not in TABLES:
        raise InputError(f"there is no table {name!r}: give {', '.join(TABLES[:-1])} or {TABLES[-1]}")
    file = importlib.resources.files("cplsr.evaluation") / "published_tables" / f"{name}.toml"
    content: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    for row in content["rows"]:
        row["cells"] = dict(zip(content["targets"], row["cells"], strict=True)) if "cells" in row else {}
    return msgspec.convert({"name": name, **content}, PublishedTable)


def benchmark_target(*names: str) -> str | None:
    """The benchmark's target that one of the names stands for, the first of several; spelling aside."""
    titles = {_plain(entry.title): entry.title for entry in CATALOG.values() if entry.role == "target"}
    return next((titles[_plain(name)] for name in names if _plain(name) in titles), None)


def benchmark_targets(results: Results) -> dict[str, str]:
    """For each target of an evaluation that is one of the benchmark's, by its data or by its name: which."""
    titles = {name: benchmark_target(results.data.get(name, {}).get("name", ""), name) for name in results.targets}
    return {name: title for name, title in titles.items() if title is not None}


def comparable_methods(results: Results) -> list[str]:
    """The methods that answer as the paper's systems do: by prototypes of the last class token, each query for itself.

    Files without settings say so by the names alone.
    """
    if results.settings.get("backbone", {}).get("pooling", "cls") != "cls":
        return []
    adapters = results.settings.get("adapters")
    if adapters is None:
        return [name for name in results.methods if not name.startswith((f"{FROZEN}+", f"{FROZEN} "))]
    plain = {FROZEN, *(adapter["name"] for adapter in adapters)}
    return [name for name in results.methods if name in plain]


def remarks_on_methods(results: Results) -> tuple[str, ...]:
    """Which methods answer otherwise than the paper's systems."""
    comparable = comparable_methods(results)
    if not (others := [method for method in results.methods if method not in comparable]):
        return ()
    answer = "answers" if len(others) == 1 else "answer"
    return (f"the paper's systems answer by prototypes of the last class token; {', '.join(others)} {answer} otherwise "
            "and must not be compared with them",)  # fmt: skip


def remarks_on_data(results: Results) -> tuple[str, ...]:
    """What is not as in the benchmark: a sample instead of all images, images of another size."""
    remarks = []
    expected = {entry.title: entry.expected[ALL] for entry in CATALOG.values() if entry.role == "target"}
    for name, title in benchmark_targets(results).items():
        remark = _compare_counts(results.data.get(name, {}), expected[title])
        if remark is not None:
            remarks.append(f"{name}: {remark}: not comparable")
    size = results.settings.get("backbone", {}).get("image_size", IMAGE_SIZE)
    if size != IMAGE_SIZE:
        remarks.append(f"images are of {size} px, the paper's of {IMAGE_SIZE} px: not comparable")
    return tuple(remarks)


def another_backbone(results: Results) -> str | None:
    """A few words where the backbone is not of the paper's shape, else `None`."""
    backbone = results.settings.get("backbone", {})
    shape = {name: backbone.get(name) for name in VIT_S16}
    if shape == VIT_S16:
        return None
    own = "{layers} layers, {dim} wide, {heads} heads, patch {patch_size}".format(**shape)
    return f"another backbone ({own}; the paper's is ViT-S/16)"


def obstacles(results: Results) -> list[str]:
    """Why the paper's figures do not belong beside an evaluation, each in a few words; none where they do.

    It takes 5-way episodes with balanced queries, prototypes of the last class token and a backbone of the paper's
    shape. Data that is not all of the benchmark's is no obstacle but a remark, and so are other methods beside those
    that answer like the paper's.
    """
    reasons = [
        f"episodes are {way}-way, the paper's {WAY}-way" for way in sorted({row.way for row in results.rows} - {WAY})
    ]
    if not comparable_methods(results):
        reasons += remarks_on_methods(results)
    if any(row.queries != "balanced" for row in results.rows):
        reasons.append("queries are spread unevenly over the classes, the paper's evenly")
    return [*reasons, *filter(None, [another_backbone(results)])]


def remarks_beside(results: Results) -> list[str]:
    """All that is to be known where the paper's figures stand beside an evaluation's all the same, each once."""
    return list(dict.fromkeys((*obstacles(results), *remarks_on_methods(results), *remarks_on_data(results))))


def _compare_counts(data: Mapping[str, Any], expected: Expected) -> str | None:
    images, classes = data.get("images", 0), sum(count > 0 for count in data.get("classes", {}).values())
    if (images, classes) == (expected.images, expected.classes):
        return None
    if images < expected.images:
        return f"the data is a sample ({images:,} of {expected.images:,} images)"
    return (
        f"the data is not the benchmark's ({images:,} images of {classes} classes, "
        f"not {expected.images:,} of {expected.classes})"
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
