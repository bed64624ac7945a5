"""A table of paths and labels as a domain."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cplsr.data.domain import Domain, numbered
from cplsr.data.identity import look_at_files
from cplsr.data.image_file import FileReader
from cplsr.errors import InputError, counted

TABLES = frozenset({".csv", ".tsv"})
PATH_COLUMNS = ("path", "file", "filename", "image")
LABEL_COLUMNS = ("label", "class", "target")
GROUP_COLUMNS = ("group", "patient", "subject")
SHOWN = 5


class Row(NamedTuple):
    """One image of a table: its path relative to the domain's root, its class and what else it belongs to."""

    path: str
    label: str
    group: str | None = None


def open_listing(table: Path | str, *, strict: bool = False) -> Domain:
    """Open a csv (or tab-separated .tsv) with the columns path,label and optionally group; nothing is decoded yet.

    Paths in it are relative to its own folder, never to the current one. Images that are missing are named in
    `Domain.skipped`, or with `strict` an error.

    Raises:
        InputError: the table lacks a column or a cell, or none of its images is there.
    """
    table = Path(table)
    rows = list(read_rows(table))
    classes = sorted({row.label for row in rows})
    return domain_from_rows(rows, table.parent, name=table.stem, classes=classes, strict=strict)


def domain_from_rows(
    rows: Sequence[Row], root: Path, *, name: str, classes: Sequence[str], strict: bool = False
) -> Domain:
    """Make a domain of the images of `rows` that exist under `root`; the others are skipped.

    Raises:
        InputError: none of the images exists, or one does not and `strict` is set.
    """
    domain = listed(rows, root, name=name, classes=classes)
    if not len(domain):
        shown = "; ".join(f"{path}: {reason}" for path, reason in domain.skipped[:3]) or "it has no rows"
        raise InputError(f"none of the images that {name} lists can be found under {root} ({shown})")
    if strict and domain.skipped:
        raise InputError(skipped_message(root, domain.skipped))
    return domain


def listed(rows: Sequence[Row], root: Path, *, name: str, classes: Sequence[str]) -> Domain:
    """Make a domain of the images of `rows` that exist under `root`, even of none."""
    files = look_at_files(str(root), [row.path for row in rows])
    kept = [row for row, file in zip(rows, files, strict=True) if file.problem is None]
    grouped = bool(kept) and all(row.group is not None for row in kept)
    return Domain(
        name=name,
        classes=tuple(classes),
        labels=numbered((row.label for row in kept), classes),
        identities=tuple(file.identity for file in files if file.problem is None),
        reader=FileReader(str(root), tuple(row.path for row in kept)),
        groups=np.array([row.group for row in kept]) if grouped else None,
        skipped=tuple((file.path, file.problem) for file in files if file.problem is not None),
    )


def skipped_message(root: Path, skipped: Sequence[tuple[str, str]]) -> str:
    """Say which files a strict opener refuses."""
    shown = "; ".join(f"{name}: {reason}" for name, reason in skipped[:SHOWN])
    more = f"; and {len(skipped) - SHOWN:,} more" if len(skipped) > SHOWN else ""
    return f"{root} holds {len(skipped):,} files that cannot be used ({shown}{more}): remove them or leave out --strict"


def skipped_by_kind(source: str | Path, skipped: Sequence[tuple[str, str]]) -> str:
    """Say how many files of a source were passed over: each kind with its number, some names, and the reason."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for name, reason in skipped:
        kinds.setdefault((Path(name).suffix.lower(), reason), []).append(name)
    parts = []
    for (ending, reason), names in sorted(kinds.items(), key=lambda kind: -len(kind[1])):
        more = ", …" if len(names) > SHOWN else ""
        parts.append(f"{len(names):,} {ending or 'without ending'} ({reason}: {', '.join(names[:SHOWN])}{more})")
    return f"{counted(len(skipped), 'file')} of {source} passed over: {'; '.join(parts)}"


def read_rows(table: Path, *, labeled: bool = True) -> Iterator[Row]:
    """Read the rows of a table one at a time; where no labels are wanted, the column of paths is all it needs.

    Raises:
        InputError: the table lacks a column or a cell, or has no rows.
    """
    empty, wanted = True, "path,label" if labeled else "path"
    try:
        with table.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, delimiter="\t" if table.suffix.lower() == ".tsv" else ",")
            header = [cell.strip().lower() for cell in next(reader, [])]
            path = _column(table, header, PATH_COLUMNS)
            label = _column(table, header, LABEL_COLUMNS) if labeled else None
            group = next((header.index(column) for column in GROUP_COLUMNS if column in header), None)
            for cells in reader:
                if any(cell.strip() for cell in cells):
                    empty = False
                    yield _row(table, reader.line_num, header, cells, path, label, group)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"{table} is not a table in UTF-8 ({error}): save it as csv with the columns {wanted}"
        ) from error
    if empty:
        raise InputError(f"{table} lists no images: give lines of {wanted} below the header")


def _row(
    table: Path, line: int, header: list[str], cells: list[str], path: int, label: int | None, group: int | None
) -> Row:
    if label is None:
        if len(cells) <= path or not cells[path].strip() or "\0" in cells[path]:
            raise InputError(f"{table}, line {line} has no path: give one image per line")
        return Row(cells[path].strip(), "")
    if len(cells) != len(header) or not cells[path].strip() or not cells[label].strip() or "\0" in cells[path]:
        raise InputError(
            f"{table}, line {line}: {len(cells)} cells {cells[:4]}, but the header has {len(header)} "
            f"({','.join(header)}): give every image a path and a label"
        )
    return Row(cells[path].strip(), cells[label].strip(), None if group is None else cells[group].strip())


def _column(table: Path, header: list[str], accepted: tuple[str, ...]) -> int:
    for column in accepted:
        if column in header:
            return header.index(column)
    present = ",".join(header) or "nothing"
    raise InputError(f"{table} has the columns {present}, but needs one called {accepted[0]}: add it to the first line")
