"""The folder of a training run: settings, metrics, state; killed at any moment, it can be continued."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cplsr.errors import InputError
from cplsr.files import new_file, write_json, writing

RUN, METRICS, STATE = "run.json", "metrics.jsonl", "state.pt"


@dataclass
class RunState:
    """All that a run needs to go on: everything random is a function of the seed and of `episode`.

    episode: base episodes done. best_*: the best validation so far. seconds: time spent before a restart.
    objective: the objective's own parameters, where it has any.
    """

    episode: int
    adapter: dict[str, Tensor]
    optimizer: dict[str, Any]
    best_episode: int
    best_accuracy: float
    best_adapter: dict[str, Tensor]
    seconds: float
    objective: dict[str, Tensor] = field(default_factory=dict)


class RunFolder:
    """Reads and writes the files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, description: dict[str, Any], *, resume: bool) -> bool:
        """Claim the folder for a run so described; `False` where that run is finished already.

        A folder with something in it is only ever touched with `resume`, and only by the run that made it.
        """
        occupied = self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir()))
        if not occupied:
            write_json(self.path / RUN, {**description, "finished": False})
            return True
        if not (self.path / RUN).is_file():
            raise InputError(f"{self.path} exists and holds no training run: give another --out")
        old = self._read()
        if not resume:
            state = "a finished" if old["finished"] else "an unfinished"
            raise InputError(f"{self.path} holds {state} run: give --resume to continue it, or another --out")
        if differences := _differences(old, description):
            raise InputError(
                f"{self.path} was started with other settings ({'; '.join(differences)}): give the same ones, or "
                "another --out"
            )
        return not old["finished"]

    def finish(self, **results: Any) -> None:
        """Add the results to run.json; the state is of no more use then."""
        write_json(self.path / RUN, {**self._read(), **results, "finished": True})
        (self.path / STATE).unlink(missing_ok=True)

    def results(self) -> dict[str, Any]:
        """What run.json says."""
        return self._read()

    def save_state(self, state: RunState) -> None:
        """Keep the state, whole or not at all."""
        with new_file(self.path / STATE, "wb") as stream:
            torch.save(vars(state), stream)

    def load_state(self) -> RunState | None:
        """The last state, if there is one; metrics of later episodes are cut off, for they will be made again."""
        if not (self.path / STATE).is_file():
            (self.path / METRICS).unlink(missing_ok=True)
            return None
        state = RunState(**torch.load(self.path / STATE, map_location="cpu", weights_only=True))
        lines = (self.path / METRICS).read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["episode"] <= state.episode]
        with new_file(self.path / METRICS) as stream:
            stream.writelines(kept)
        return state

    def append_metrics(self, row: dict[str, Any]) -> None:
        """One line of metrics.jsonl."""
        with writing(self.path / METRICS), (self.path / METRICS).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row, allow_nan=False) + "\n")

    def validations(self) -> list[tuple[int, float]]:
        """(episode, accuracy) of every validation so far."""
        lines = (self.path / METRICS).read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        return [(row["episode"], row["validation"]) for row in rows if "validation" in row]

    def _read(self) -> dict[str, Any]:
        try:
            return json.loads((self.path / RUN).read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{self.path / RUN} is damaged ({error}): give another --out") from error


def git_commit() -> str | None:
    """The commit of the source tree this package runs from, if it runs from one."""
    command = ["git", "-C", os.fspath(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Settings that decide the result and are not the same, as `name: old, now new`."""
    fresh = json.loads(json.dumps(new))
    differences = []
    for part in ("settings", "method", "adapter", "backbone", "data"):
        if part in old:  # else written before there was such a part
            before, after = ({**content.get(part, {}), "source": None} for content in (old, fresh))
            differences += told_differences(before, after)  # moved weights are the same weights: no source
    return differences


def told_differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Entries that are not the same, as `name: old, now new`."""
    names = sorted(old.keys() | new.keys())
    return [_difference(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]


def _difference(name: str, before: Any, after: Any) -> str:
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return f"{name}: {before}, now {after}"
    changed = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key)]
    if changed == ["fingerprint"]:
        return f"{name}: files of the same number and other content, or with other times (cp -a keeps them)"
    return ", ".join(f"{name} {key}: {before.get(key)}, now {after.get(key)}" for key in sorted(changed))
