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
    """One method on one target at one shot; accuracy and its 95 % half-width in percent."""

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
    """Read what `Results.write` wrote."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        del content["averages"]
        rows = tuple(Row(**row) for row in content.pop("rows"))
        paired = tuple(PairedRow(**row) for row in content.pop("paired"))
        flags = tuple(content.pop("flags"))
        return Results(rows=rows, paired=paired, flags=flags, **content)
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(
            f"{path} cannot be read as evaluation results ({reason}): give a file written by `cplsr evaluate`"
        ) from error
