"""What an evaluation found: results.json."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypedDict, TypeVar

import msgspec

from cplsr.declared import between
from cplsr.records.estimate import Estimate
from cplsr.records.parts import BackboneInfo, Count
from cplsr.records.record import Record

FROZEN = "frozen"
"""Name of the backbone as it is, with the same prototype classifier."""

Percent = Annotated[float, between(0, 100)]
Share = Annotated[float, between(0, 1)]
HalfWidth = Annotated[float, between(0, 1000)] | None
if TYPE_CHECKING:
    Counts = tuple[tuple[int, ...], ...]
else:
    # No ranges here: msgspec 0.22 mixes up a range and the length of a tuple where both stand in one union.
    Counts = tuple[tuple[int | tuple[int, int], ...], ...]
    """In memory every entry of the matrix; in files of each row its (column, count) pairs, formerly all entries."""


@dataclass(frozen=True)
class MethodRow:
    """One method on one target with so many support images of each class."""

    method: str
    target: str
    shot: Count


@dataclass(frozen=True)
class AccuracyRow(MethodRow):
    """How often a method was right.

    Attributes:
        query: Query images of each class, on average.
        train_shot: The shot the method was trained for, if it was.
        accuracy: Mean over the episodes, in percent.
        ci95: Half-width of its 95 % interval.
        together: Whether the method sees the queries of an episode together.
        queries: How the queries are spread over the classes of an episode.
    """

    way: Count
    query: Count
    episodes: Annotated[int, between(1, 10**9)]
    seed: int
    train_shot: int | None
    accuracy: Percent
    ci95: HalfWidth
    together: bool = False
    queries: str = "balanced"

    @property
    def estimate(self) -> Estimate:
        """The accuracy with its interval."""
        return Estimate(self.accuracy, self.ci95)


@dataclass(frozen=True)
class PairedRow:
    """One method minus another on the same episodes.

    Attributes:
        difference: Mean over the episodes, in percentage points.
        ci95: Half-width of its 95 % interval.
        wins: Share of the episodes on which the one is strictly better.
    """

    method: str
    against: str
    target: str
    shot: Count
    difference: Annotated[float, between(-100, 100)]
    ci95: HalfWidth
    wins: Share

    @property
    def estimate(self) -> Estimate:
        """The difference with its interval."""
        return Estimate(self.difference, self.ci95)

    @property
    def significant(self) -> bool:
        """Whether 0 lies outside the interval."""
        return self.estimate.significant


@dataclass(frozen=True)
class SnapshotRow:
    """The adapter that a training had after so many episodes, on one target at one shot.

    Attributes:
        episode: Base episodes of the training by then.
        accuracy: Mean over the target's episodes, in percent.
        ci95: Half-width of its 95 % interval.
    """

    episode: int
    target: str
    shot: Count
    accuracy: Percent
    ci95: HalfWidth


def best_and_last(rows: Iterable[SnapshotRow]) -> dict[tuple[str, int], tuple[SnapshotRow, SnapshotRow]]:
    """The best snapshot, of equals the earliest, and the last one, by target and shot."""
    groups: dict[tuple[str, int], list[SnapshotRow]] = {}
    for row in rows:
        groups.setdefault((row.target, row.shot), []).append(row)
    return {
        key: (max(group, key=lambda row: (row.accuracy, -row.episode)), max(group, key=lambda row: row.episode))
        for key, group in groups.items()
    }


@dataclass(frozen=True)
class ConfusionRow(MethodRow):
    """Which classes a method took for which.

    Attributes:
        classes: Those that were asked about.
        counts: Queries of class i taken for class j at [i][j].
        recall: Share of each class's queries that were recognized.
    """

    classes: tuple[str, ...]
    counts: Counts
    recall: tuple[Share, ...]

    def __post_init__(self) -> None:
        """Fill in the zeros that files leave out, and refuse what is no matrix of the classes."""
        size = len(self.classes)
        counts = tuple(row if _all_entries(row, size) else _with_zeros(row, size) for row in self.counts)
        if not size == len(counts) == len(self.recall) or any(count < 0 for row in counts for count in row):
            raise ValueError(f"the confusions of {self.method} on {self.target} are not those of {size} classes")
        object.__setattr__(self, "counts", counts)

    @property
    def hardest(self) -> tuple[str, float]:
        """The class with the lowest recall, the first of equals, and that recall."""
        label = min(range(len(self.recall)), key=self.recall.__getitem__)
        return self.classes[label], self.recall[label]


def _all_entries(row: tuple[Any, ...], size: int) -> bool:
    return len(row) == size and all(isinstance(entry, int) for entry in row)


def _with_zeros(row: tuple[Any, ...], size: int) -> tuple[int, ...]:
    """A row of the matrix from its (column, count) pairs."""
    if not all(isinstance(pair, tuple) and 0 <= pair[0] < size for pair in row):
        raise ValueError(f"a row of the confusions is not that of {size} classes")
    counts = dict(row)
    return tuple(counts.get(column, 0) for column in range(size))


@dataclass(frozen=True)
class CalibrationBin:
    """Answers of similar confidence: their mean confidence, how often they were right, and their share of all."""

    confidence: float
    accuracy: float
    share: float


@dataclass(frozen=True)
class CalibrationRow(MethodRow):
    """Whether a method's confidences hold; everything between 0 and 1.

    Attributes:
        temperature: Factor on the scores before the softmax.
        ece: Expected calibration error over 15 bins of equal width.
        bins: Those with any answers, least confident first.
    """

    temperature: float
    ece: Share
    bins: tuple[CalibrationBin, ...]


@dataclass(frozen=True)
class AverageRow:
    """Mean accuracy of one method over all targets at one shot, in percent."""

    method: str
    shot: int
    accuracy: float


class EvaluatedAdapter(TypedDict, total=False):
    """An adapter that was measured, and the shot it was trained for."""

    name: str
    source: str
    kind: str
    options: dict[str, Any]
    fingerprint: str
    train_shot: int | None


class EvaluationSettings(TypedDict, total=False):
    """What was measured, and how.

    Attributes:
        adaptation: What was done with every support set, where anything was.
        command: What was typed.
    """

    backbone: BackboneInfo
    adapters: list[EvaluatedAdapter]
    also: list[str]
    heads: list[dict[str, Any]]
    shots: list[int]
    way: int
    query: int
    queries: str | list[str]
    episodes: int
    seed: int
    match_shot: bool
    prototype: str
    temperature: float
    interval: str
    adaptation: dict[str, Any]
    command: str


class TargetData(TypedDict, total=False):
    """The images of a target that took part, by class, and those that did not."""

    name: str
    images: int
    classes: dict[str, int]
    grouped: bool
    fingerprint: str
    unreadable: list[str]
    skipped: list[str]


@dataclass(frozen=True)
class Results(Record):
    """Everything an evaluation measured and what it depends on.

    Attributes:
        paired: Differences from the first method.
        data: For each target its images, classes and what was left out.
        flags: Remarks that belong beside the figures wherever they are shown.
        dirichlet: The same methods on unbalanced queries, where these were asked for beside balanced ones.
    """

    what: ClassVar = "results (written by `cplsr evaluate`)"
    indent: ClassVar = None
    tells_paths: ClassVar = ("settings", "data", "flags")

    rows: tuple[AccuracyRow, ...]
    paired: tuple[PairedRow, ...] = ()
    confusion: tuple[ConfusionRow, ...] = ()
    calibration: tuple[CalibrationRow, ...] = ()
    settings: EvaluationSettings = field(default_factory=EvaluationSettings)
    versions: dict[str, str] = field(default_factory=dict)
    data: dict[str, TargetData] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    dirichlet: Results | None = None

    @property
    def reference(self) -> str:
        """The method that the others are compared with: the frozen backbone, answered in the first way asked for."""
        return self.paired[0].against if self.paired else self.methods[0]

    @property
    def together(self) -> tuple[str, ...]:
        """The methods that see the queries of an episode together."""
        return tuple(dict.fromkeys(row.method for row in self.rows if row.together))

    @property
    def methods(self) -> tuple[str, ...]:
        """Method names in order of first appearance."""
        return tuple(dict.fromkeys(row.method for row in self.rows))

    @property
    def targets(self) -> tuple[str, ...]:
        """Target names in order of first appearance."""
        return tuple(dict.fromkeys(row.target for row in self.rows))

    @property
    def shots(self) -> tuple[int, ...]:
        """Shots in order of first appearance."""
        return tuple(dict.fromkeys(row.shot for row in self.rows))

    def row(self, method: str, target: str, shot: int) -> AccuracyRow | None:
        """The row of a method on a target at a shot, if there is one."""
        return _find(self.rows, method, target, shot)

    def paired_row(self, method: str, target: str, shot: int) -> PairedRow | None:
        """Its difference from the reference, if there is one."""
        return _find(self.paired, method, target, shot)

    def confusion_row(self, method: str, target: str, shot: int) -> ConfusionRow | None:
        """Its confusions, if they were counted."""
        return _find(self.confusion, method, target, shot)

    def averages(self) -> tuple[AverageRow, ...]:
        """Means over the targets, for the methods and shots that were measured on all of several targets."""
        averages = []
        for method in self.methods:
            for shot in self.shots:
                rows = [row for row in self.rows if (row.method, row.shot) == (method, shot)]
                if len(rows) == len(self.targets) > 1:
                    averages.append(AverageRow(method, shot, sum(row.accuracy for row in rows) / len(rows)))
        return tuple(averages)

    def to_json(self) -> dict[str, Any]:
        """As plain lists and dictionaries, the content of the file."""
        shown = self.public()
        sparse = [{**vars(row), "counts": [_without_zeros(line) for line in row.counts]} for row in shown.confusion]
        first = {"rows": shown.rows, "paired": shown.paired, "averages": shown.averages()}
        whole = {**first, **vars(shown), "confusion": sparse}
        del whole["dirichlet"]
        if self.dirichlet is not None:
            unbalanced = self.dirichlet.to_json()
            whole["dirichlet"] = {name: unbalanced[name] for name in (*first, "confusion", "calibration")}
        return msgspec.to_builtins(whole)


AnyRow = TypeVar("AnyRow", AccuracyRow, PairedRow, ConfusionRow)


def _find(rows: Iterable[AnyRow], method: str, target: str, shot: int) -> AnyRow | None:
    return next((row for row in rows if (row.method, row.target, row.shot) == (method, target, shot)), None)


def _without_zeros(row: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(column, count) for column, count in enumerate(row) if count]
