"""A training run: run.json and metrics.jsonl."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypedDict

from cplsr.declared import read_lines
from cplsr.records.parts import AdapterKind, BackboneInfo, MethodInfo
from cplsr.records.record import Record

RUN, METRICS = "run.json", "metrics.jsonl"
SNAPSHOTS = "snapshots"
"""The folder of adapters kept during a run, each in a folder called by its episode."""


class TrainingData(TypedDict, total=False):
    """The base or the validation domain."""

    name: str
    classes: int
    images: int
    fingerprint: str
    flags: list[str]


@dataclass(frozen=True)
class TrainingRun(Record):
    """What a run depends on, and once it is finished how it went; accuracies are of the validation, in percent.

    Attributes:
        settings: As `TrainingSettings` had them when it was started.
        data: The base and the validation domain, as `base` and `val`.
        git_commit: Of the source tree that the package ran from, if it was one.
        processes: How many trained together.
        threads: Of torch in each.
        command: What was typed.
        finished: Whether what follows is the end.
        start_accuracy: Before the first episode; `last_accuracy` after the last, `best_accuracy` of all validations.
        selected_episode: The one whose adapter was kept.
        validation_fingerprint: Hash of the validation episodes.
    """

    file: ClassVar = RUN
    what: ClassVar = "a run (written by `cplsr train`)"
    tells_paths: ClassVar = ("settings", "method", "adapter", "backbone", "data", "command")

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

    def to_json(self) -> dict[str, Any]:
        """As plain lists and dictionaries, the content of the file; what is not known yet is left out."""
        return {name: value for name, value in super().to_json().items() if value is not None}


@dataclass(frozen=True)
class Metrics:
    """One line of metrics.jsonl: a step of the training, or a validation.

    Attributes:
        episode: Base episodes done.
        loss: Of the step.
        accuracy: Of the step's own episode, in percent.
        images_per_second: Speed of the step.
        validation: Accuracy in percent.
        validation_ci95: Half-width of its interval.
        distance_from_identity: ‖C − I‖ by layer, at a validation of coalescent projections.
    """

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
    return read_lines(file, Metrics, f"the metrics of {TrainingRun.what}") if file.is_file() else []
