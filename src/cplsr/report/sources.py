"""Files and folders given for a page, recognized by what is in them."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable
from pathlib import Path

from cplsr.declared import read_record
from cplsr.errors import InputError
from cplsr.files import text_of_csv_cell
from cplsr.records.ablation import AblationRun
from cplsr.records.analysis import FINDINGS, Analysis
from cplsr.records.public import public_path
from cplsr.records.results import Results
from cplsr.records.run import METRICS, RUN, TrainingRun, read_metrics
from cplsr.report.ablation_table import table_of
from cplsr.report.material import Ablation, Analyzed, Evaluation, Material, Training

_WANTED = "give a run folder, a results file, an analysis folder or an ablation folder, or a folder that holds some"


def gather(paths: Iterable[Path | str]) -> Material:
    """Read everything that was given; a folder is searched one level deep, and nothing is taken twice."""
    collection = _Collection()
    for path in paths:
        before = collection.count
        collection.add(Path(path))
        if collection.count == before and not collection.known(Path(path)):
            raise InputError(f"{path} holds nothing to report on: {_WANTED}")
    if not collection.count:
        raise InputError(f"there is nothing to report on: {_WANTED}")
    return collection.material()


class _Collection:
    """What was found so far, by the place it was found at."""

    def __init__(self) -> None:
        self.evaluations: dict[Path, Evaluation] = {}
        self.trainings: dict[Path, Training] = {}
        self.analyses: dict[Path, Analyzed] = {}
        self.ablations: dict[Path, Ablation] = {}
        self.files: dict[Path, tuple[str, str]] = {}

    @property
    def count(self) -> int:
        """How many things there are."""
        return len(self.evaluations) + len(self.trainings) + len(self.analyses) + len(self.ablations)

    def known(self, path: Path) -> bool:
        """Whether something under this path was taken before."""
        return any(path.resolve() in (place, *place.parents) for place in self.files)

    def material(self) -> Material:
        """All of it."""
        return Material(
            evaluations=tuple(self.evaluations.values()),
            trainings=tuple(self.trainings.values()),
            analyses=tuple(self.analyses.values()),
            ablations=tuple(self.ablations.values()),
            files=tuple(self.files.values()),
        )

    def add(self, path: Path) -> None:
        """Take a file or a folder."""
        if path.is_dir():
            self._folder(path, search=True)
        elif path.name in (RUN, METRICS, FINDINGS):
            self._folder(path.parent, search=False)
        elif not path.is_file():
            raise InputError(f"{path} does not exist: {_WANTED}")
        elif (kind := _kind(path)) is None:
            raise InputError(f"{path} is none of the files that can be reported on: {_WANTED}")
        elif kind is Results:
            self._evaluation(path)
        else:
            self._ablation(path, [path])

    def _folder(self, folder: Path, *, search: bool) -> None:
        if (folder / RUN).is_file():
            training = Training(public_path(folder), TrainingRun.read(folder), tuple(read_metrics(folder)))
            self.trainings[folder.resolve()] = training
            self._remember(*(folder / name for name in (RUN, METRICS) if (folder / name).is_file()))
            return
        if (folder / FINDINGS).is_file():
            analysis = Analysis.read(folder)
            self.analyses[folder.resolve()] = Analyzed(public_path(folder), analysis)
            self._remember(*(folder / name for name in analysis.files()))
            return
        kinds = {path: _kind(path) for path in sorted(folder.glob("[!.]*.json"))}
        for path in (path for path, kind in kinds.items() if kind is Results):
            self._evaluation(path)
        if runs := [path for path, kind in kinds.items() if kind is AblationRun]:
            self._ablation(folder, runs)
        elif search:
            for inner in sorted(folder.glob("[!.]*/")):
                self._folder(inner, search=False)

    def _evaluation(self, path: Path) -> None:
        results = Results.read(path)
        if not results.rows:
            raise InputError(f"{path} holds no accuracies: run `cplsr evaluate` again")
        self.evaluations[path.resolve()] = Evaluation(public_path(path), results)
        self._remember(path)

    def _ablation(self, place: Path, paths: list[Path]) -> None:
        order = _table_order(place)
        runs = [AblationRun.read(path) for path in paths]
        runs.sort(key=lambda run: order.index(run.row) if run.row in order else len(order))
        self.ablations[place.resolve()] = Ablation(public_path(place), tuple(runs), table_of(runs))
        self._remember(*paths)

    def _remember(self, *paths: Path) -> None:
        for path in paths:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            self.files[path.resolve()] = (public_path(path), digest[:16])


def _kind(path: Path) -> type[Results] | type[AblationRun] | None:
    """What a file is by the names in it; `None` for JSON of other kinds."""
    content = read_record(path, object, f"a source of a page: {_WANTED}")
    names = content.keys() if isinstance(content, dict) else set()
    if {"row", "shot", "seed", "results"} <= names:
        return AblationRun
    return Results if {"rows", "paired"} <= names else None


def _table_order(folder: Path) -> list[str]:
    """Names of the rows as the ablation's own table has them; without one they stand in the order of their files."""
    path = folder / "table.csv"
    if not path.is_file():
        return []
    return [text_of_csv_cell(row[0]) for row in csv.reader(path.read_text(encoding="utf-8").splitlines()) if row]
