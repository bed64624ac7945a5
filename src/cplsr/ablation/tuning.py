"""A learning rate for every row, chosen on validation classes; no target domain is opened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from cplsr.ablation.plan import Run, slug
from cplsr.ablation.run import Job
from cplsr.ablation.workspace import Setup
from cplsr.errors import InputError
from cplsr.records.ablation import Tuned, Tuning
from cplsr.records.run import RUN, TrainingRun


def tuning_jobs(
    runs: Iterable[Run], setup: Setup, out: Path, *, rates: Sequence[float], episodes: int, seed: int
) -> list[Job]:
    """Make jobs of short trainings, at every rate, of the runs that have the seed; frozen ones are passed over."""
    if not rates or len(set(rates)) < len(rates) or min(rates) <= 0:
        raise InputError(f"tune_rates are {list(rates)}: give at least one, each once, all above 0")
    jobs = []
    for run in runs:
        if run.frozen or run.settings.seed != seed:
            continue
        for rate in sorted(rates):
            settings = replace(run.settings, lr=rate, episodes=episodes, validate_every=0, select="last")
            name = f"{slug(run.row)}-lr{rate:g}-{settings.shot}shot-seed{seed}"
            jobs.append(Job(replace(run, settings=settings), setup, out / "tuning" / name))
    return jobs


def choose_rates(jobs: Sequence[Job], out: Path) -> dict[str, float]:
    """Choose for every row the rate with the best last validation accuracy, averaged over shots.

    Of equals the smallest is taken, and none at which a training failed. The choice and all accuracies are added to
    `tuning.json`; rows of which every rate failed are missing.
    """
    chosen: dict[str, Tuned] = {}
    for row in dict.fromkeys(job.run.row for job in jobs):
        tried = [job for job in jobs if job.run.row == row]
        if (tuned := _choose(tried)) is not None:
            chosen[row] = tuned
    if jobs:
        Tuning({**_read(out), **chosen}).write(out)
    return {row: tuned["rate"] for row, tuned in chosen.items()}


def read_rates(out: Path) -> dict[str, float]:
    """Read the rates chosen earlier, by row; none where no tuning took place."""
    return {row: entry["rate"] for row, entry in _read(out).items()}


def _choose(tried: Sequence[Job]) -> Tuned | None:
    """The best rate of one row's trainings."""
    measured: dict[float, list[float | None]] = {}
    for job in tried:
        measured.setdefault(job.run.settings.lr, []).append(_last_accuracy(job))
    finished = {rate: [one for one in accuracies if one is not None] for rate, accuracies in measured.items()}
    means = {rate: sum(known) / len(known) for rate, known in finished.items() if len(known) == len(measured[rate])}
    if not means:
        return None
    return {
        "rate": max(means, key=lambda rate: (means[rate], -rate)),
        "validation_accuracy": {f"{rate:g}": mean for rate, mean in means.items()},
        "failed": [f"{rate:g}" for rate in measured if rate not in means],
        "episodes": tried[0].run.settings.episodes,
        "shots": sorted({job.run.settings.shot for job in tried}),
        "seed": tried[0].run.settings.seed,
    }


def _last_accuracy(job: Job) -> float | None:
    record = TrainingRun.read(job.folder) if (job.folder / RUN).is_file() else None
    return record.last_accuracy if record is not None and record.finished else None


def _read(out: Path) -> dict[str, Tuned]:
    return Tuning.read(out).rows if (out / Tuning.file).is_file() else {}
