"""A training run: run.json and metrics.jsonl."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from cplsr.declared import read_lines, read_record
from cplsr.files import write_json
from cplsr.records.parts import AdapterKind, BackboneInfo, MethodInfo
from cplsr.records.public import public

RUN, METRICS = "run.json", "metrics.jsonl"
SNAPSHOTS = "snapshots"
"""The folder of adapters kept during a run, each in a folder called by its episode."""
_WHAT = "a run (written by `cplsr train`)"


class TrainingData(TypedDict, total=False):
    """The base or the validation domain."""

    name: str
    classes: int
    images: int
    fingerprint: str
    flags: list[str]


@dataclass(frozen=True)
class TrainingRun:
    """What a run depends on, and once it is finished how it went; accuracies are of the validation, in percent.

    settings: as `TrainingSettings` had them when it was started.
    data: the base and the validation domain, as `base` and `val`.
    command: what was typed. seconds: time spent. selected_episode: the one whose adapter was kept.
    """

    settings: dict[str, Any]
    adapter: AdapterKind
    backbone: BackboneInfo
    data: dict[str, TrainingData]
    versions: dict[str, str]
    method: MethodInfo = field(default_factory=MethodInfo)
    git_commit: str | None = None
    processes: int = 1
    threads: int | None = None
    command: str | None = None
    finished: bool = False
    start_accuracy: float | None = None
    last_accuracy: float | None = None
    best_accuracy: float | None = None
    best_episode: int | None = None
    selected_episode: int | None = None
    validation_fingerprint: str | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse a finished run without its results."""
        results = (self.start_accuracy, self.last_accuracy, self.best_accuracy, self.best_episode, self.seconds)
        if self.finished and None in results:
            raise ValueError("the run is finished, but its accuracies or its time are missing")

    def public(self) -> TrainingRun:
        """The same without anybody's folders."""
        return TrainingRun(**public(vars(self)))

    def to_json(self) -> dict[str, Any]:
        """As plain lists and dictionaries, the content of the file; what is not known yet is left out."""
        return {name: value for name, value in msgspec.to_builtins(self.public()).items() if value is not None}

    def write(self, folder: Path) -> None:
        """Write run.json, whole or not at all."""
        write_json(folder / RUN, self.to_json())

    @classmethod
    def read(cls, folder: Path) -> TrainingRun:
        """Read run.json of a run folder, earlier versions included."""
        return read_record(folder / RUN, cls, _WHAT).public()


@dataclass(frozen=True)
class Metrics:
    """One line of metrics.jsonl: a step of the training, or a validation with the distance ‖C − I‖ of every layer."""

    episode: int
    loss: float | None = None
    accuracy: float | None = None
    images_per_second: float | None = None
    validation: float | None = None
    validation_ci95: float | None = None
    distance_from_identity: dict[str, float] = field(default_factory=dict)


def read_metrics(folder: Path) -> list[Metrics]:
    """All lines of metrics.jsonl; none where there is no such file yet."""
    file = folder / METRICS
    return read_lines(file, Metrics, f"the metrics of {_WHAT}") if file.is_file() else []
