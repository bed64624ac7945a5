"""What an evaluation found, and the file that says so."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cplsr.errors import InputError
from cplsr.files import write_json

FROZEN = "frozen"
"""Name of the backbone as it is, with the same prototype classifier."""


@dataclass(frozen=True)
class Row:
    """One method on one target at one shot; accuracy and its 95 % half-width in percent.

    together: whether the method sees the queries of an episode together.
    queries: how the queries are spread over the classes of an episode.
    """

    method: str
    target: str
    shot: int
    way: int
    query: int
    episodes: int
    seed: int
    train_shot: int | None
    accuracy: float
    ci95: float | None
    together: bool = False
    queries: str = "balanced"


@dataclass(frozen=True)
class PairedRow:
    """One method minus another on the same episodes, in percentage points.

    wins: share of the episodes on which it is strictly better.
    """

    method: str
    against: str
    target: str
    shot: int
    difference: float
    ci95: float | None
    wins: float

    @property
    def significant(self) -> bool:
        """Whether 0 lies outside the interval."""
        return self.ci95 is not None and abs(self.difference) > self.ci95


@dataclass(frozen=True)
class ConfusionRow:
    """Which classes were taken for which by one method on one target at one shot.

    classes: those that were asked about; class i's queries taken for class j are `counts[i][j]`.
    recall: share of each class's queries that were recognized.
    """

    method: str
    target: str
    shot: int
    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    recall: tuple[float, ...]

    @property
    def hardest(self) -> tuple[str, float]:
        """The class with the lowest recall, the first of equals, and that recall."""
        place = min(range(len(self.recall)), key=self.recall.__getitem__)
        return self.classes[place], self.recall[place]


@dataclass(frozen=True)
class CalibrationBin:
    """Answers of similar confidence: its mean, how often they were right, their share of all answers."""

    confidence: float
    accuracy: float
    share: float


@dataclass(frozen=True)
class CalibrationRow:
    """Whether one method's confidences hold on one target at one shot; everything between 0 and 1.

    temperature: factor on the scores before the softmax.
    ece: expected calibration error over 15 bins of equal width.
    bins: those with any answers, least confident first.
    """

    method: str
    target: str
    shot: int
    temperature: float
    ece: float
    bins: tuple[CalibrationBin, ...]


@dataclass(frozen=True)
class AverageRow:
    """Mean accuracy of one method over all targets at one shot."""

    method: str
    shot: int
    accuracy: float


@dataclass(frozen=True)
class Results:
    """Everything an evaluation measured and what it depends on.

    data: for each target its images, classes and what was left out.
    flags: remarks that belong beside the figures wherever they are shown.
    """

    rows: tuple[Row, ...]
    paired: tuple[PairedRow, ...] = ()
    confusion: tuple[ConfusionRow, ...] = ()
    calibration: tuple[CalibrationRow, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    data: dict[str, dict[str, Any]] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

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

    def row(self, method: str, target: str, shot: int) -> Row | None:
        """The row of a method on a target at a shot, if there is one."""
        wanted = (method, target, shot)
        return next((row for row in self.rows if (row.method, row.target, row.shot) == wanted), None)

    def paired_row(self, method: str, target: str, shot: int) -> PairedRow | None:
        """Its difference from the frozen backbone, if there is one."""
        wanted = (method, target, shot)
        return next((row for row in self.paired if (row.method, row.target, row.shot) == wanted), None)

    def confusion_row(self, method: str, target: str, shot: int) -> ConfusionRow | None:
        """Its confusions, if they were counted."""
        wanted = (method, target, shot)
        return next((row for row in self.confusion if (row.method, row.target, row.shot) == wanted), None)

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
        """As plain lists and dictionaries."""
        content = asdict(self)
        averages = [asdict(row) for row in self.averages()]
        return {"rows": content.pop("rows"), "paired": content.pop("paired"), "averages": averages, **content}

    def write(self, path: Path | str) -> None:
        """Write as JSON, whole or not at all."""
        write_json(path, self.to_json())


def read_results(path: Path | str) -> Results:
    """Read what `Results.write` wrote, earlier versions included."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        del content["averages"]
        return Results(
            rows=tuple(Row(**row) for row in content.pop("rows")),
            paired=tuple(PairedRow(**row) for row in content.pop("paired")),
            confusion=tuple(_confusion_row(**row) for row in content.pop("confusion", ())),
            calibration=tuple(_calibration_row(**row) for row in content.pop("calibration", ())),
            flags=tuple(content.pop("flags")),
            **content,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(
            f"{path} cannot be read as evaluation results ({reason}): give a file written by `cplsr evaluate`"
        ) from error


def _confusion_row(*, classes: list[str], counts: list[list[int]], recall: list[float], **rest: Any) -> ConfusionRow:
    return ConfusionRow(classes=tuple(classes), counts=tuple(map(tuple, counts)), recall=tuple(recall), **rest)


def _calibration_row(*, bins: list[dict[str, float]], **rest: Any) -> CalibrationRow:
    return CalibrationRow(bins=tuple(CalibrationBin(**each) for each in bins), **rest)
