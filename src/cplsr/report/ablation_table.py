"""The table of an ablation, in the paper's layout, from the records of its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import Any, Literal, TypeVar

from cplsr.records.ablation import AblationRun
from cplsr.records.estimate import Estimate, combined
from cplsr.records.results import FROZEN, best_and_last
from cplsr.report.tables import Cell, Table, best_of_most, table

K = TypeVar("K")
V = TypeVar("V")
AVERAGE = "average"
OVER_SEEDS = "spread over seeds"
NOT_ALLOWED = "best epoch on\nthe target (not allowed)"
_COSTS: dict[str, tuple[Callable[[AblationRun], float | None], str]] = {
    "trained\nparameters": (lambda record: (record.training or {}).get("parameters"), ",.0f"),
    "training\nseconds": (lambda record: (record.training or {}).get("seconds"), ",.0f"),
    "seconds per\ntarget episode": (lambda record: record.seconds_per_target_episode, ".2f"),
}
"""Columns for what a row costs: the figure of a record, if it has one, and how it is written."""
_DECLARED: tuple[Literal["trains", "sees"], ...] = ("trains", "sees")
_PLACES = 10
"""Accuracies that agree to so many places are equal: sums taken in another order differ in the last bits."""

Columns = Iterator[tuple[str, dict[str, Cell]]]
"""Headings, each with its cells by row; a row without a cell has nothing to say there, a column without any is none."""


@dataclass(frozen=True)
class Measured:
    """One row at one shot: for each seed the accuracy and its difference from frozen; on how many episodes."""

    accuracies: tuple[Estimate, ...]
    differences: tuple[Estimate, ...]
    episodes: int

    @property
    def accuracy(self) -> Estimate:
        """The mean over the seeds."""
        return combined(self.accuracies)

    @property
    def difference(self) -> Estimate | None:
        """Mean difference from the frozen backbone on the same episodes, where there is one."""
        return combined(self.differences) if self.differences else None

    @property
    def rank(self) -> tuple[float, int]:
        """What makes one row the best of a column."""
        return round(self.accuracy.mean, _PLACES), self.episodes


def table_of(
    records: Sequence[AblationRun],
    *,
    rows: Sequence[str] = (),
    failures: Sequence[tuple[str, str]] = (),
    shots: Sequence[int] | None = None,
) -> Table:
    """Rows down, targets and shots across, with averages, gains over frozen and costs; means over the seeds.

    Args:
        records: what the runs wrote, in the order in which their rows are to stand.
        rows: names of all rows that were planned; those without a record are listed as not run.
        failures: (run, reason) of runs that failed; they go to the caption.
        shots: the shots to show. Default: all.
    """
    names = list(dict.fromkeys([*rows, *(record.row for record in records)]))
    shown = sorted({record.shot for record in records if shots is None or record.shot in shots})
    declared, accuracies = list(_declared_columns(records)), list(_accuracy_columns(records, shown))
    whole = {shot: _measured(records, shot, targets_of(records)) for shot in shown}
    others = (*_gain_columns(whole), *_seed_columns(whole), *_snapshot_columns(records, shown), *_cost_columns(records))
    columns = [*declared, *accuracies, *((heading, cells) for heading, cells in others if cells)]
    measured = [name for name in names if any(name in cells for _, cells in accuracies)]
    return table(
        _title(records),
        ("row", *(heading for heading, _ in columns)),
        [(name, *(cells.get(name, "") for _, cells in columns)) for name in measured],
        _caption(records, names, failures),
        left=1 + len(declared),
    )


def tables_by_shot(records: Sequence[AblationRun]) -> list[Table]:
    """The same, a table for each shot: one for all would be wider than a page."""
    shots = sorted({record.shot for record in records})
    return [table_of([record for record in records if record.shot == shot]) for shot in shots]


def gains(records: Sequence[AblationRun], shot: int, targets: Sequence[str]) -> dict[str, Estimate]:
    """Each row's difference from the frozen backbone, averaged over the targets and its seeds."""
    measured = _measured(records, shot, targets)
    return {row: entry.difference for row, entry in measured.items() if entry.difference is not None}


def _accuracy_columns(records: Sequence[AblationRun], shots: Sequence[int]) -> Columns:
    """Every target and their average at every shot; the best in bold where there are several rows."""
    targets = targets_of(records)
    groups = [(target, [target]) for target in targets]
    if len(targets) > 1:
        groups.append((AVERAGE, targets))
    measured = [(f"{name}\n{shot}-shot", _measured(records, shot, own)) for shot in shots for name, own in groups]
    several = len({row for _, column in measured for row in column}) > 1
    for heading, column in measured:
        best = best_of_most(entry.rank for entry in column.values()) if several else None
        marks = {row: entry.difference.mark for row, entry in column.items() if entry.difference is not None}
        cells = {row: Cell(e.accuracy.written(), e.rank == best, marks.get(row, "")) for row, e in column.items()}
        yield heading, cells


def _gain_columns(whole: Mapping[int, Mapping[str, Measured]]) -> Columns:
    """The difference from frozen over all targets; its mark stands with the accuracy."""
    for shot, measured in whole.items():
        gained = {row: change for row, entry in measured.items() if (change := entry.difference) is not None}
        yield f"gain\n{shot}-shot", {row: Cell(_minus(change.written(sign=True))) for row, change in gained.items()}


def _seed_columns(whole: Mapping[int, Mapping[str, Measured]]) -> Columns:
    """How far the seeds lie apart, in average accuracy and in gain; for rows of several seeds."""
    for shot, measured in whole.items():
        averages = {row: _spread(each.accuracies) for row, each in measured.items() if len(each.accuracies) > 1}
        changes = {row: each.differences for row, each in measured.items() if len(each.differences) > 1}
        changed = {row: _minus(_spread(differences, sign=True)) for row, differences in changes.items()}
        for what, figures in ((AVERAGE, averages), ("gain", changed)):
            yield f"{what},\n{OVER_SEEDS}\n{shot}-shot", {row: Cell(figure) for row, figure in figures.items()}


def _snapshot_columns(records: Sequence[AblationRun], shots: Sequence[int]) -> Columns:
    """The last epoch, and the best one chosen on each target: averages, never bold, for nobody may choose so."""
    for shot in shots:
        found = _grouped(
            (record.row, [Estimate(row.accuracy, row.ci95) for row in pair])
            for record in records
            if record.shot == shot
            for pair in best_and_last(row for row in record.snapshots if row.shot == shot).values()
        )
        for number, heading in ((1, "last epoch"), (0, NOT_ALLOWED)):
            chosen = {row: combined([pair[number] for pair in pairs]) for row, pairs in found.items()}
            yield f"{heading}\n{shot}-shot", {row: Cell(estimate.written()) for row, estimate in chosen.items()}


def _cost_columns(records: Sequence[AblationRun]) -> Columns:
    """What the trainings cost, averaged over shots and seeds."""
    for heading, (figure, layout) in _COSTS.items():
        costs = _grouped((record.row, cost) for record in records if (cost := figure(record)) is not None)
        yield heading, {row: Cell(format(sum(known) / len(known), layout)) for row, known in costs.items()}


def _declared_columns(records: Sequence[AblationRun]) -> Columns:
    """What the rows train and see, where their methods differ."""
    if len({record.method.get("name") for record in records if record.method}) < 2:
        return
    declared = {record.row: record.declared for record in reversed(records) if record.declared}
    for word in _DECLARED:
        yield word, {row: Cell(entry[word]) for row, entry in declared.items()}


def targets_of(records: Sequence[AblationRun]) -> list[str]:
    """Names of the targets, in the order in which the runs have them."""
    return list(dict.fromkeys(target for record in records for target in record.results.targets))


def _measured(records: Sequence[AblationRun], shot: int, targets: Sequence[str]) -> dict[str, Measured]:
    """Every row that was measured on all of the targets with all of its seeds, averaged over both."""
    by_row = _grouped((record.row, record) for record in records if record.shot == shot)
    return {row: entry for row, own in by_row.items() if (entry := _average(own, shot, targets)) is not None}


def _average(records: Sequence[AblationRun], shot: int, targets: Sequence[str]) -> Measured | None:
    accuracies, differences, episodes = [], [], []
    for record in records:
        method = FROZEN if record.adapter["kind"] == FROZEN else record.row
        rows = [row for target in targets if (row := record.results.row(method, target, shot)) is not None]
        paired = [gap for target in targets if (gap := record.results.paired_row(method, target, shot)) is not None]
        if not rows or len(rows) < len(targets):
            return None
        accuracies.append(combined([row.estimate for row in rows]))
        differences += [combined([row.estimate for row in paired])] if paired else []
        episodes += [row.episodes for row in rows]
    return Measured(tuple(accuracies), tuple(differences), min(episodes))


def _grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """All values of each key."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _spread(seeds: Sequence[Estimate], *, sign: bool = False) -> str:
    """How far the means of several seeds lie apart: half of their 95 % t interval, of two the lower and the higher.

    They differ by their trainings and by their episodes, and both are in it.
    """
    means = [estimate.mean for estimate in seeds]
    if len(means) < 3:
        return " to ".join(Estimate(mean).written(sign=sign) for mean in sorted(means))
    from scipy.special import stdtrit

    half = float(stdtrit(len(means) - 1, 0.975)) * stdev(means) / len(means) ** 0.5
    return f"±{half:.2f}"


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _title(records: Sequence[AblationRun]) -> str:
    row = next((row for record in records for row in record.results.rows), None)
    if row is None:
        return "ablation"
    return f"{row.way}-way accuracy in %, {row.episodes:,} episodes of each seed, {row.query} queries per class"


def _caption(records: Sequence[AblationRun], names: Sequence[str], failures: Sequence[tuple[str, str]]) -> str:
    seeds = sorted({record.seed for record in records})
    parts = []
    if records:
        parts.append(
            f"Mean over {'seed ' if len(seeds) == 1 else 'seeds '}{', '.join(map(str, seeds))}; ± 95 % interval over "
            "episodes, √(Σ interval²) / n for n seeds, without the spread between trainings; best in bold; ▲ ▼ "
            "significantly above or below frozen by the mean of the seeds' paired differences, with the interval "
            "combined in the same way; gain: that difference over all targets."
        )
    if len(seeds) > 1:
        parts.append(
            f"{OVER_SEEDS.capitalize()}: half of the 95 % t interval over the means of the seeds where there are three "
            "or more, of two the lower and the higher; trainings and episodes both differ between seeds."
        )
    if any(record.snapshots for record in records):
        parts.append(
            "Best epoch on the target: of all validated epochs the one most accurate on the very episodes that are "
            "reported, chosen for each target, as often published; no choice of ours sees it."
        )
    parts += _unequal_seeds(records, seeds)
    parts += _mixed(records)
    done = {record.row for record in records}
    if missing := [name for name in names if name not in done]:
        parts.append(f"Not run: {'; '.join(missing)}.")
    parts += [f"Failed: {run}: {reason.rstrip('.')}." for run, reason in failures]
    return " ".join(parts)


def _unequal_seeds(records: Sequence[AblationRun], seeds: Sequence[int]) -> list[str]:
    """Rows that lack seeds others have: their means are of fewer trainings and other episodes."""
    by_row = _grouped(((record.row, record.shot), record.seed) for record in records)
    return [
        f"{row}, {shot}-shot: only {'seed' if len(own) == 1 else 'seeds'} {', '.join(map(str, sorted(own)))}."
        for (row, shot), own in by_row.items()
        if sorted(own) != list(seeds)
    ]


def _fewer_episodes(records: Sequence[AblationRun]) -> list[str]:
    """Rows measured on the first episodes only: their accuracies are of other episodes, their gains are paired."""
    notes = []
    for name in dict.fromkeys(record.row for record in records):
        mine = [row for record in records if record.row == name for row in record.results.rows]
        counts = {row.episodes for row in mine if row.method == name}
        if counts and min(counts) < max(row.episodes for row in mine):
            notes.append(f"{name}: only the first {min(counts)} episodes; compare its gain, not its accuracy.")
    return notes


def _mixed(records: Sequence[AblationRun]) -> list[str]:
    """What must be the same for figures to be compared, and is not."""
    notes = _fewer_episodes(records)
    shared: dict[str, set[Any]] = {
        "backbones": {record.backbone["fingerprint"] for record in records},
        "image sizes": {record.backbone["image_size"] for record in records},
        "evaluation episodes": {
            row.episodes for record in records for row in record.results.rows if row.method == FROZEN
        },
        "ways": {row.way for record in records for row in record.results.rows},
        "queries": {row.query for record in records for row in record.results.rows},
        "numbers of training episodes": {
            record.settings["episodes"] for record in records if "episodes" in record.settings
        },
    }
    for what, values in shared.items():
        if len(values) > 1:
            notes.append(f"Beware: rows with different {what} ({', '.join(sorted(map(str, values)))}).")
    flags = dict.fromkeys(flag for record in records for flag in record.results.flags)
    return [*notes, *(f"{flag.rstrip('.')}." for flag in flags)]
