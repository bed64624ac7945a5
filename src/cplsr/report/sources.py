"""Files and folders given for a page, recognized by what is in them."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cplsr.errors import InputError
from cplsr.evaluation.results import Results, read_results
from cplsr.files import text_of_csv_cell
from cplsr.report.ablation_table import table_of
from cplsr.report.material import Ablation, Analysis, Evaluation, Material, Training, analysis_of, training_of

RUN, METRICS, ANALYSIS = "run.json", "metrics.jsonl", "analysis.json"
_WANTED = "give a run folder, a results file, an analysis folder or an ablation folder, or a folder that holds some"
_DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


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


def name_of(path: Path) -> str:
    """What a page calls a file: its path from here, or only the end of it: readers need not know the rest."""
    place, here = path.resolve(), Path.cwd()
    if place != here and place.is_relative_to(here):
        return place.relative_to(here).as_posix()
    return "/".join(place.parts[-2:])


class _Collection:
    """What was found so far, by the place it was found at."""

    def __init__(self) -> None:
        self.evaluations: dict[Path, Evaluation] = {}
        self.trainings: dict[Path, Training] = {}
        self.analyses: dict[Path, Analysis] = {}
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
        elif path.name in (RUN, METRICS, ANALYSIS):
            self._folder(path.parent, search=False)
        elif path.is_file():
            content = self._json(path)
            if not self._file(path, content):
                raise InputError(f"{path} is none of the files that can be reported on: {_WANTED}")
        else:
            raise InputError(f"{path} does not exist: {_WANTED}")

    def _folder(self, folder: Path, *, search: bool) -> None:
        if (folder / RUN).is_file():
            self._training(folder)
            return
        if (folder / ANALYSIS).is_file():
            self._analysis(folder)
            return
        runs = []
        for path in sorted(folder.glob("[!.]*.json")):
            content = self._json(path)
            if _is_ablation(content):
                runs.append((path, content))
            else:
                self._file(path, content)
        if runs:
            self._ablation(folder, runs)
        elif search:
            for inner in sorted(folder.glob("[!.]*/")):
                self._folder(inner, search=False)

    def _file(self, path: Path, content: Any) -> bool:
        """Take a file that stands for itself; `False` where it is none."""
        if _is_ablation(content):
            self._ablation(path, [(path, content)])
        elif isinstance(content, Mapping) and {"rows", "paired"} <= content.keys():
            results = read_results(path)
            try:
                _check_figures(map(vars, results.rows), map(vars, results.paired))
                _check_classes(results)
            except _DAMAGE as error:
                raise _damaged(path, "evaluation results", "cplsr evaluate", error) from error
            if not results.rows:
                raise InputError(f"{path} holds no accuracies: run `cplsr evaluate` again")
            self.evaluations[path.resolve()] = Evaluation(name_of(path), results)
            self._remember(path)
        else:
            return False
        return True

    def _training(self, folder: Path) -> None:
        about, metrics = self._json(folder / RUN), folder / METRICS
        try:
            lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.is_file() else []
            rows = [json.loads(line) for line in lines]
            self.trainings[folder.resolve()] = training_of(name_of(folder), about, rows)
        except _DAMAGE as error:
            raise _damaged(folder, "a training run", "cplsr train", error) from error
        self._remember(folder / RUN)
        if metrics.is_file():
            self._remember(metrics)

    def _analysis(self, folder: Path) -> None:
        content = self._json(folder / ANALYSIS)

        def read(name: str) -> bytes:
            path = (folder / name).resolve()
            if not path.is_relative_to(folder.resolve()):
                raise InputError(
                    f"{folder / ANALYSIS} names the file {name}, which is outside its folder: run it again"
                )
            self._remember(folder / name)
            return path.read_bytes()

        try:
            panels = json.loads(read(content["umap"]))["panels"] if content["umap"] else []
            self.analyses[folder.resolve()] = analysis_of(name_of(folder), content, read, panels)
        except InputError:
            raise
        except _DAMAGE as error:
            raise _damaged(folder, "an analysis", "cplsr analyze", error) from error
        self._remember(folder / ANALYSIS)

    def _ablation(self, place: Path, runs: list[tuple[Path, Any]]) -> None:
        order = _table_order(place)
        contents = [content for _, content in runs]
        contents.sort(key=lambda content: order.index(content["row"]) if content["row"] in order else len(order))
        try:
            table = table_of(contents)
            for content in contents:
                _check_figures(content["results"]["rows"], content["results"]["paired"])
        except _DAMAGE as error:
            raise _damaged(place, "an ablation", "cplsr ablate", error) from error
        self.ablations[place.resolve()] = Ablation(name_of(place), tuple(contents), table)
        for path, _ in runs:
            self._remember(path)

    def _json(self, path: Path) -> Any:
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}): {_WANTED}") from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not JSON or is damaged ({error}): {_WANTED}") from error

    def _remember(self, path: Path) -> None:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        self.files[path.resolve()] = (name_of(path), digest[:16])


def _is_ablation(content: Any) -> bool:
    return isinstance(content, Mapping) and {"row", "shot", "seed", "results"} <= content.keys()


def _table_order(folder: Path) -> list[str]:
    """Names of the rows as the ablation's own table has them; without one they stand in the order of their files."""
    path = folder / "table.csv"
    if not path.is_file():
        return []
    return [text_of_csv_cell(row[0]) for row in csv.reader(path.read_text(encoding="utf-8").splitlines()) if row]


def _check_figures(rows: Iterable[Mapping[str, Any]], paired: Iterable[Mapping[str, Any]]) -> None:
    """Complain where a figure is none, before anything is computed from it."""
    for row in rows:
        _check(row, ("accuracy", "shot", "way", "episodes", "query"), ("ci95",))
    for row in paired:
        _check(row, ("difference", "shot", "wins"), ("ci95",))


def _check(row: Mapping[str, Any], wanted: tuple[str, ...], maybe: tuple[str, ...]) -> None:
    for key in (*wanted, *maybe):
        value = row[key]
        if (key in wanted or value is not None) and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise TypeError(f"{key} is {value!r}, not a number")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{key} is {value}")


def _check_classes(results: Results) -> None:
    for row in results.confusion:
        count = len(row.classes)
        if {count} != {len(row.counts), len(row.recall), *map(len, row.counts)}:
            raise ValueError(f"the confusions of {row.method} on {row.target} are not those of {count} classes")
        sum(sum(line) for line in row.counts)
        sum(row.recall)
    for entry in results.calibration:
        _check(vars(entry), ("shot", "temperature", "ece"), ())
        for each in entry.bins:
            _check(vars(each), ("confidence", "accuracy", "share"), ())


def _damaged(folder: Path, what: str, command: str, error: BaseException) -> InputError:
    reason = f"{type(error).__name__}: {error}"
    return InputError(f"{folder} cannot be read as {what} ({reason}): give what `{command}` wrote")
