"""What a page is made of: the files and folders given for it, recognized by what is in them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cplsr.declared import read_record
from cplsr.errors import InputError
from cplsr.files import sha256_of, text_of_csv_cell
from cplsr.records.ablation import AblationRun
from cplsr.records.analysis import FINDINGS, Analysis
from cplsr.records.public import public_path
from cplsr.records.results import Results
from cplsr.records.run import METRICS, RUN, Metrics, TrainingRun, read_metrics

_WANTED = "give a run folder, a results file, an analysis folder or an ablation folder, or a folder that holds some"


@dataclass(frozen=True)
class Training:
    """A run folder of `cplsr train`: run.json, and metrics.jsonl divided into steps and validations."""

    about: TrainingRun
    metrics: tuple[Metrics, ...]

    @property
    def steps(self) -> list[tuple[int, float, float]]:
        """Episode, loss and images per second of every step."""
        return [(m.episode, m.loss, m.images_per_second or 0.0) for m in self.metrics if m.loss is not None]

    @property
    def validations(self) -> list[tuple[int, float, float | None]]:
        """Episode, accuracy and its half-width of every validation."""
        return [(m.episode, m.validation, m.validation_ci95) for m in self.metrics if m.validation is not None]


@dataclass(frozen=True)
class Ablation:
    """A folder of `cplsr ablate`: its runs, in the order in which their rows are to stand."""

    runs: tuple[AblationRun, ...]


Record = Results | Training | Analysis | Ablation
T = TypeVar("T", bound=Record)


@dataclass(frozen=True)
class Material:
    """Everything that goes on a page by name, and the files it came from with the first digits of their SHA-256."""

    entries: tuple[tuple[str, Record], ...]
    files: tuple[tuple[str, str], ...] = ()

    def of(self, kind: type[T]) -> list[tuple[str, T]]:
        """Names and contents of all records of one kind."""
        return [(name, record) for name, record in self.entries if isinstance(record, kind)]


def gather(paths: Iterable[Path | str]) -> Material:
    """Read everything that was given; a folder is searched one level deep, and nothing is taken twice."""
    entries: dict[Path, tuple[str, Record]] = {}
    files: dict[Path, tuple[str, str]] = {}
    for path in map(Path, paths):
        records = list(_records(path))
        if not records:
            raise InputError(f"{path} holds nothing to report on: {_WANTED}")
        for source, record, own in records:
            entries[source.resolve()] = (public_path(source), record)
            for file in own:
                files[file.resolve()] = (public_path(file), sha256_of(file)[:16])
    if not entries:
        raise InputError(f"there is nothing to report on: {_WANTED}")
    return Material(tuple(entries.values()), tuple(files.values()))


def _records(path: Path) -> Iterator[tuple[Path, Record, list[Path]]]:
    """What a file or folder holds: where it lies, the record, and the files it was read from."""
    if path.is_dir():
        yield from _in_folder(path, search=True)
    elif path.name in (RUN, METRICS, FINDINGS):
        yield from _in_folder(path.parent, search=False)
    elif not path.is_file():
        raise InputError(f"{path} does not exist: {_WANTED}")
    elif (kind := _kind(path)) is None:
        raise InputError(f"{path} is none of the files that can be reported on: {_WANTED}")
    else:
        yield path, _results(path) if kind is Results else _ablation(path, [path]), [path]


def _in_folder(folder: Path, *, search: bool) -> Iterator[tuple[Path, Record, list[Path]]]:
    if (folder / RUN).is_file():
        training = Training(TrainingRun.read(folder), tuple(read_metrics(folder)))
        yield folder, training, [folder / name for name in (RUN, METRICS) if (folder / name).is_file()]
        return
    if (folder / FINDINGS).is_file():
        analysis = Analysis.read(folder)
        yield folder, analysis, [folder / name for name in analysis.files()]
        return
    kinds = {path: _kind(path) for path in sorted(folder.glob("[!.]*.json"))}
    for path in (path for path, kind in kinds.items() if kind is Results):
        yield path, _results(path), [path]
    if runs := [path for path, kind in kinds.items() if kind is AblationRun]:
        yield folder, _ablation(folder, runs), runs
    elif search:
        for inner in sorted(folder.glob("[!.]*/")):
            yield from _in_folder(inner, search=False)


def _results(path: Path) -> Results:
    results = Results.read(path)
    if not results.rows:
        raise InputError(f"{path} holds no accuracies: run `cplsr evaluate` again")
    return results


def _kind(path: Path) -> type[Results] | type[AblationRun] | None:
    """What a file is by the names in it; `None` for JSON of other kinds."""
    content = read_record(path, object, f"a source of a page: {_WANTED}")
    names = content.keys() if isinstance(content, dict) else set()
    if {"row", "shot", "seed", "results"} <= names:
        return AblationRun
    return Results if {"rows", "paired"} <= names else None


def _ablation(path: Path, files: list[Path]) -> Ablation:
    order = _table_order(path)
    runs = [AblationRun.read(file) for file in files]
    return Ablation(tuple(sorted(runs, key=lambda run: order.index(run.row) if run.row in order else len(order))))


def _table_order(folder: Path) -> list[str]:
    """Names of the rows as the ablation's own table has them; without one they stand in the order of their files."""
    path = folder / "table.csv"
    if not path.is_file():
        return []
    return [text_of_csv_cell(row[0]) for row in csv.reader(path.read_text(encoding="utf-8").splitlines()) if row]
