"""The folder of a training run: settings, metrics, state; killed at any moment, it can be continued."""

from __future__ import annotations

import json
import logging
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from cplsr.errors import InputError
from cplsr.files import PARTIAL, new_file, remove_leftovers, writing
from cplsr.records.run import METRICS, RUN, TrainingRun
from cplsr.settings.training import TrainingSettings
from cplsr.tensor_file import DamagedFileError, read_tensors, write_tensors

STATE, PREVIOUS, EARLIER_STATE = "state.safetensors", "state.previous.safetensors", "state.pt"
KIND = "cplsr training state 1"
_TENSORS = ("adapter", "best_adapter", "objective", "optimizer", "drift", "sums")
_log = logging.getLogger(__name__)


@dataclass
class RunState:
    """All that a run needs to go on: everything random is a function of the seed and of `episode`.

    Attributes:
        optimizer: Its tensors, as `PARAMETER/NAME`.
        best_episode: Of the best validation so far, as are its accuracy and the adapter as it was then.
        seconds: Time spent before a restart.
        objective: The objective's own parameters, where it has any.
        drift: How far the Gaussians' means were moved (`means`), where they follow the adapter.
        sums: Of the adapter's parameters after each step of the averaged part of the run, in float64.
    """

    episode: int = 0
    adapter: dict[str, Tensor] = field(default_factory=dict)
    optimizer: dict[str, Tensor] = field(default_factory=dict)
    best_episode: int = -1
    best_accuracy: float = float("-inf")
    best_adapter: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0
    objective: dict[str, Tensor] = field(default_factory=dict)
    drift: dict[str, Tensor] = field(default_factory=dict)
    sums: dict[str, Tensor] = field(default_factory=dict)
    metrics: list[dict[str, Any]] = field(default_factory=list)


class RunFolder:
    """Reads and writes the files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, new: TrainingRun, *, resume: bool) -> bool:
        """Claim the folder for a run that has not begun; `False` where that run is finished already.

        A folder with something in it is only ever touched with `resume`, and only by the run that made it.
        """
        leftovers = (".lock", PARTIAL)  # of a run that was killed before it wrote its first file
        occupied = self.path.exists() and (
            not self.path.is_dir() or any(not entry.name.endswith(leftovers) for entry in self.path.iterdir())
        )
        if not occupied:
            new.write(self.path)
            return True
        if not (self.path / RUN).is_file():
            raise InputError(f"{self.path} exists and holds no training run: give another --out")
        old = TrainingRun.read(self.path)
        if not resume:
            state = "a finished" if old.finished else "an unfinished"
            raise InputError(f"{self.path} holds {state} run: give --resume to continue it, or another --out")
        if differences := _differences(old, new):
            raise InputError(
                f"{self.path} was started with other settings ({'; '.join(differences)}): give the same ones, or "
                "another --out"
            )
        return not old.finished

    def finish(self, **results: Any) -> None:
        """Add the results to run.json; the states, and what killed processes left half-written, are of no more use."""
        replace(TrainingRun.read(self.path), **results, finished=True).write(self.path)
        for file in (self.path / STATE, self.path / PREVIOUS):
            file.unlink(missing_ok=True)
        remove_leftovers(self.path)

    def save_state(self, state: RunState) -> None:
        """Keep the state, whole or not at all, and the one before it."""
        if (self.path / STATE).is_file():
            (self.path / STATE).replace(self.path / PREVIOUS)
        parts = {name: value for name, value in vars(state).items() if name not in _TENSORS}
        tensors = {f"{part}/{name}": tensor for part in _TENSORS for name, tensor in getattr(state, part).items()}
        write_tensors(self.path / STATE, tensors, parts, kind=KIND)

    def load_state(self) -> RunState | None:
        """The last undamaged state, if there is any; the metrics are written anew from it.

        What came after it is done again, with the same result. Only where every state is damaged there is no way on.
        """
        states = [file for name in (STATE, PREVIOUS) if (file := self.path / name).is_file()]
        damage = []
        for file in states:
            try:
                state = _read_state(file)
            except DamagedFileError as error:
                damage.append(str(error.__cause__ or error))
                continue
            for bad in states[: len(damage)]:
                _log.warning("%s is damaged: continuing from the state before it", bad)
                bad.unlink()  # or the next one saved would take the place of the good one
            self._write_metrics(state.metrics)
            return state
        if damage:
            raise InputError(
                f"the run in {self.path} cannot be continued, for its state is damaged ({'; '.join(damage)}): remove "
                f"{' and '.join(file.name for file in states)} to begin again from the first episode"
            )
        if (self.path / EARLIER_STATE).is_file():
            raise InputError(
                f"{self.path / EARLIER_STATE} is of an earlier version and has no checksum: remove it to begin again "
                "from the first episode, or finish the run with that version"
            )
        self._write_metrics([])
        return None

    def append_metrics(self, row: dict[str, Any]) -> None:
        """One line of metrics.jsonl."""
        with writing(self.path / METRICS), (self.path / METRICS).open("a", encoding="utf-8") as stream:
            stream.write(_line(row))

    def _write_metrics(self, rows: list[dict[str, Any]]) -> None:
        with new_file(self.path / METRICS) as stream:
            stream.writelines(map(_line, rows))


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, allow_nan=False) + "\n"


def _read_state(file: Path) -> RunState:
    stored, parts = read_tensors(file, kind=KIND)
    own = {path: tensor.clone() for path, tensor in stored.items()}  # the file they are mapped from will be replaced
    return RunState(**parts, **nested(own))  # type: ignore[arg-type]


def nested(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Tensors called `PART/NAME`, by part."""
    parts: dict[str, dict[str, Tensor]] = {}
    for path, tensor in tensors.items():
        part, _, name = path.partition("/")
        parts.setdefault(part, {})[name] = tensor
    return parts


def git_commit() -> str | None:
    """The commit of the source tree this package runs from, if it runs from one."""
    command = ["git", "-C", os.fspath(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _differences(old: TrainingRun, new: TrainingRun) -> list[str]:
    """Settings that decide the result and are not the same, as `name: old, now new`."""
    before, after = (json.loads(json.dumps(run.to_json())) for run in (old, new))  # tuples as lists
    differences = []
    for part in ("settings", "method", "adapter", "backbone", "data"):
        if before[part]:  # else written before there was such a part
            # Moved weights are the same weights: no source.
            differences += told_differences(*({**run[part], "source": None} for run in (before, after)))
    if not old.finished and "schedule" not in old.settings and not old.settings.get("sst", True):
        differences.append("validation episodes: of turned images, now of images as they are")
    return differences


def told_differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Entries that are not the same, as `name: old, now new`; a setting that came later had its default before."""
    old = {name: value for name, value in TrainingSettings().as_dict().items() if name in new} | old
    names = sorted(old.keys() | new.keys())
    return [_difference(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]


def _difference(name: str, before: Any, after: Any) -> str:
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return f"{name}: {before}, now {after}"
    changed = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
    if changed == ["fingerprint"]:
        return f"{name}: as many files, but of other content"
    return ", ".join(f"{name} {key}: {before.get(key)}, now {after.get(key)}" for key in sorted(changed))
