"""The table of an ablation, in the paper's layout, from the records of its runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cplsr.records.ablation import AblationRun
from cplsr.records.results import FROZEN, excludes_zero
from cplsr.report.tables import Cell, Mark, Table, best_of_most

AVERAGE = "average"
_COSTS: dict[str, tuple[Callable[[AblationRun], float | None], str]] = {
    "trained\nparameters": (lambda record: (record.training or {}).get("parameters"), ",.0f"),
    "training\nseconds": (lambda record: (record.training or {}).get("seconds"), ",.0f"),
    "seconds per\ntarget episode": (lambda record: record.seconds_per_target_episode, ".2f"),
}
"""Columns for what a row costs: the figure of a record, if it has one, and how it is written."""
_DECLARED: tuple[Literal["trains", "sees"], ...] = ("trains", "sees")
_PLACES = 10
"""Accuracies that agree to so many places are equal: sums taken in another order differ in the last bits."""


@dataclass(frozen=True)
class Estimate:
    """A mean with the half-width of its 95 % interval; `None` where a part of it has none."""

    mean: float
    half_width: float | None


@dataclass(frozen=True)
class Place:
    """One row in one column: accuracy, its difference from the frozen backbone on the same episodes, how many."""

    accuracy: Estimate
    difference: Estimate | None
    episodes: int

    @property
    def mark(self) -> Mark:
        """Which way the difference goes where 0 lies outside its interval."""
        change = self.difference
        if change is None or not excludes_zero(change.mean, change.half_width):
            return ""
        return "better" if change.mean > 0 else "worse"


def table_of(
    records: Sequence[AblationRun],
    *,
    rows: Sequence[str] = (),
    failures: Sequence[tuple[str, str]] = (),
    shots: Sequence[int] | None = None,
) -> Table:
    """Rows down, targets and shots across, with averages, gains over frozen and costs; means over the seeds.

    records: what the runs wrote, in the order in which their rows are to stand.
    rows: names of all rows that were planned; those without a record are listed as not run.
    failures: (run, reason) of runs that failed; they go to the caption.
    shots: the shots to show. Default: all.
    """
    found = sorted({record.shot for record in records})
    shown = [shot for shot in found if shots is None or shot in shots]
    targets = list(dict.fromkeys(target for record in records for target in record.results.targets))
    groups = [(target, [target]) for target in targets]
    if len(targets) > 1:
        groups.append((AVERAGE, targets))
    columns = [(shot, number) for shot in shown for number in range(len(groups))]
    names = list(dict.fromkeys([*rows, *(record.row for record in records)]))
    places = {
        (name, shot, number): place
        for name in names
        for shot, number in columns
        if (place := _place(records, name, shot, groups[number][1])) is not None
    }
    best = {
        column: best_of_most(_rank(place) for key, place in places.items() if key[1:] == column) for column in columns
    }
    several = len({name for name, _, _ in places}) > 1
    last = len(groups) - 1
    gains = [shot for shot in shown if any(places[key].difference for key in places if key[1:] == (shot, last))]
    costs = [heading for heading in _COSTS if any(_cost(records, name, heading) is not None for name in names)]
    methods = {record.method.get("name") for record in records if record.method}
    words = _DECLARED if len(methods) > 1 else ()
    body = [
        (
            Cell(name),
            *(Cell(_declared(records, name, word)) for word in words),
            *(_cell(places.get((name, *column)), best[column] if several else None) for column in columns),
            *(_gain_cell(places.get((name, shot, last))) for shot in gains),
            *(_cost_cell(_cost(records, name, heading), heading) for heading in costs),
        )
        for name in names
        if any((name, *column) in places for column in columns)
    ]
    return Table(
        title=_title(records),
        columns=(
            "row",
            *words,
            *(f"{groups[number][0]}\n{shot}-shot" for shot, number in columns),
            *(f"gain\n{shot}-shot" for shot in gains),
            *costs,
        ),
        rows=tuple(body),
        caption=_caption(records, names, failures),
        left=1 + len(words),
    )


def combined(estimates: Sequence[Estimate]) -> Estimate:
    """Mean of independent estimates; its half-width is √(Σ half-width²) / n."""
    count = len(estimates)
    widths = [estimate.half_width for estimate in estimates if estimate.half_width is not None]
    half_width = sum(width**2 for width in widths) ** 0.5 / count if len(widths) == count else None
    return Estimate(sum(estimate.mean for estimate in estimates) / count, half_width)


def _place(records: Sequence[AblationRun], name: str, shot: int, targets: Sequence[str]) -> Place | None:
    """Over all seeds, and over all of several targets."""
    mine = [record for record in records if (record.row, record.shot) == (name, shot)]
    accuracies: list[Estimate] = []
    differences: list[Estimate] = []
    episodes: list[int] = []
    for record in mine:
        method = FROZEN if record.adapter["kind"] == FROZEN else name
        for target in targets:
            row = record.results.row(method, target, shot)
            if row is None:
                return None
            accuracies.append(Estimate(row.accuracy, row.ci95))
            episodes.append(row.episodes)
            if (paired := record.results.paired_row(method, target, shot)) is not None:
                differences.append(Estimate(paired.difference, paired.ci95))
    if not accuracies:
        return None
    return Place(combined(accuracies), combined(differences) if differences else None, min(episodes))


def _rank(place: Place) -> tuple[float, int]:
    """What makes one row the best of a column."""
    return round(place.accuracy.mean, _PLACES), place.episodes


def _cell(place: Place | None, best: tuple[float, int] | None) -> Cell:
    if place is None:
        return Cell("")
    width = place.accuracy.half_width
    text = f"{place.accuracy.mean:.2f}" + ("" if width is None else f" ±{width:.2f}")
    return Cell(text, bold=_rank(place) == best, mark=place.mark)


def _gain_cell(place: Place | None) -> Cell:
    """The difference from frozen; its mark stands with the accuracy."""
    change = None if place is None else place.difference
    if change is None:
        return Cell("")
    width = "" if change.half_width is None else f" ±{change.half_width:.2f}"
    return Cell(f"{change.mean:+.2f}{width}".replace("-", "−"))


def _cost(records: Sequence[AblationRun], name: str, heading: str) -> float | None:
    """A cost of the row's trainings, averaged over shots and seeds."""
    figure, _ = _COSTS[heading]
    known = [cost for record in records if record.row == name and (cost := figure(record)) is not None]
    return sum(known) / len(known) if known else None


def _cost_cell(cost: float | None, heading: str) -> Cell:
    return Cell("" if cost is None else format(cost, _COSTS[heading][1]))


def _declared(records: Sequence[AblationRun], name: str, word: Literal["trains", "sees"]) -> str:
    """What the row trains or sees, where its records say so."""
    told = (record.declared[word] for record in records if record.row == name and record.declared)
    return next(told, "")


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
    parts += _unequal_seeds(records, seeds)
    parts += _mixed(records)
    done = {record.row for record in records}
    if missing := [name for name in names if name not in done]:
        parts.append(f"Not run: {'; '.join(missing)}.")
    parts += [f"Failed: {run}: {reason.rstrip('.')}." for run, reason in failures]
    return " ".join(parts)


def _unequal_seeds(records: Sequence[AblationRun], seeds: Sequence[int]) -> list[str]:
    """Rows that lack seeds others have: their means are of fewer trainings and other episodes."""
    found: dict[tuple[str, int], list[int]] = {}
    for record in records:
        found.setdefault((record.row, record.shot), []).append(record.seed)
    return [
        f"{row}, {shot}-shot: only {'seed' if len(own) == 1 else 'seeds'} {', '.join(map(str, sorted(own)))}."
        for (row, shot), own in found.items()
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
    notes = []
    notes += _fewer_episodes(records)
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
