"""One run of an ablation, trained and measured: ROW-5shot-seed0.json; and the rates chosen for it: tuning.json."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from cplsr.declared import read_record
from cplsr.files import write_json
from cplsr.records.parts import AdapterKind, BackboneInfo, Count, MethodInfo
from cplsr.records.public import public
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
class AblationRun:
    """A row at one shot with one seed: what its figures depend on, and the figures.

    settings, adapter, method, adapt, setup: all that decides; older files lack some of them.
    training: `None` for the frozen backbone.
    snapshots: what choosing the epoch on the target would have to choose from, where that was asked for.
    command: the one that repeats this run.
    """

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
        without_folders = {name: public(getattr(self, name)) for name in ("backbone", "setup", "command")}
        return replace(self, results=self.results.public(), **without_folders)

    def write(self, path: Path) -> None:
        """Write as JSON, whole or not at all."""
        content = msgspec.to_builtins({**vars(self.public()), "results": self.results.to_json()})
        write_json(path, content, indent=None)

    @classmethod
    def read(cls, path: Path) -> AblationRun:
        """Read what `write` wrote, earlier versions included."""
        return read_record(path, cls, "a run of an ablation (written by `cplsr ablate`)").public()


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
class Tuning:
    """Rates by row."""

    rows: dict[str, Tuned]
