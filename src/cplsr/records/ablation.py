"""One run of an ablation, trained and measured: ROW-5shot-seed0.json; and the rates chosen for it: tuning.json."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypedDict

import msgspec

from cplsr.records.parts import AdapterKind, BackboneInfo, Count, MethodInfo
from cplsr.records.record import Record
from cplsr.records.results import Results, SnapshotRow


class TrainingOutcome(TypedDict, total=False):
    """How the training went; accuracies are of the validation, in percent."""

    start_accuracy: float
    best_accuracy: float
    best_episode: int
    last_accuracy: float
    seconds: float
    parameters: int


class Declaration(TypedDict):
    """What a run trains and what it may look at, in words."""

    trains: str
    sees: str


@dataclass(frozen=True)
class AblationRun(Record):
    """A row at one shot with one seed: what its figures depend on, and the figures.

    Attributes:
        shot: Support images of each class, in training and evaluation.
        seed: Of training and evaluation.
        settings: As `TrainingSettings` had them.
        method: The objective, which older files lack.
        adapt: What adapts on the support sets of the targets, where something does.
        setup: What all runs share, which older files lack.
        seconds_per_target_episode: How long adapting takes, where something adapts.
        command: The one that repeats this run.
        snapshots: What choosing the epoch on the target would have to choose from, where that was asked for.
    """

    what: ClassVar = "a run of an ablation (written by `cplsr ablate`)"
    indent: ClassVar = None
    tells_paths: ClassVar = ("backbone", "setup", "command")

    row: str
    shot: Count
    seed: int
    settings: dict[str, Any]
    adapter: AdapterKind
    backbone: BackboneInfo
    results: Results
    method: MethodInfo | None = None
    adapt: dict[str, Any] | None = None
    setup: dict[str, Any] | None = None
    training: TrainingOutcome | None = None
    declared: Declaration | None = None
    seconds_per_target_episode: float | None = None
    command: str = ""
    snapshots: tuple[SnapshotRow, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)

    def public(self) -> AblationRun:
        """The same without anybody's folders."""
        return replace(super().public(), results=self.results.public())

    def to_json(self) -> dict[str, Any]:
        """As plain lists and dictionaries, the content of the file."""
        return msgspec.to_builtins({**vars(self.public()), "results": self.results.to_json()})


class Tuned(TypedDict):
    """The learning rate chosen for a row, and what it was chosen by.

    Attributes:
        validation_accuracy: By every rate that was tried, the last one, averaged over shots.
        failed: Rates at which a training failed.
        episodes: Of each training.
        shots: Of the trainings.
        seed: Of the trainings.
    """

    rate: float
    validation_accuracy: dict[str, float]
    failed: list[str]
    episodes: int
    shots: list[int]
    seed: int


@dataclass(frozen=True)
class Tuning(Record):
    """Rates by row."""

    file: ClassVar = "tuning.json"
    what: ClassVar = "chosen rates (written by `cplsr ablate`)"

    rows: dict[str, Tuned]
