"""Files and folders given for a page, recognized by what is in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cplsr.errors import InputError
from cplsr.evaluation.results import read_results
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
            if not results.rows:
                raise InputError(f"{path} holds no accuracies: run `cplsr evaluate` again")
            self.evaluations[path.resolve()] = Evaluation(str(path), results)
            self._remember(path)
        else:
            return False
        return True

    def _training(self, folder: Path) -> None:
        about, metrics = self._json(folder / RUN), folder / METRICS
        try:
            lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.is_file() else []
            rows = [json.loads(line) for line in lines]
            self.trainings[folder.resolve()] = training_of(str(folder), about, rows)
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
                raise InputError(f"{folder / ANALYSIS} names the file {name}, which is outside its folder: run it again")
            self._remember(folder / name)
            return path.read_bytes()

        try:
            panels = json.loads(read(content["umap"]))["panels"] if content["umap"] else []
            self.analyses[folder.resolve()] = analysis_of(str(folder), content, read, panels)
        except InputError:
            raise
        except _DAMAGE as error:
            raise _damaged(folder, "an analysis", "cplsr analyze", error) from error
        self._remember(folder / ANALYSIS)

    def _ablation(self, place: Path, runs: list[tuple[Path, Any]]) -> None:
        self.ablations[place.resolve()] = Ablation(str(place), tuple(content for _, content in runs))
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
        self.files[path.resolve()] = (str(path), digest[:16])


def _is_ablation(content: Any) -> bool:
    return isinstance(content, Mapping) and {"row", "shot", "seed", "results"} <= content.keys()


def _damaged(folder: Path, what: str, command: str, error: BaseException) -> InputError:
    reason = f"{type(error).__name__}: {error}"
    return InputError(f"{folder} cannot be read as {what} ({reason}): give a folder written by `{command}`")
