"""A learning rate for every row, chosen on validation classes; no target domain is opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cplsr.ablation.plan import Run, slug
from cplsr.ablation.run import Job, read_record
from cplsr.ablation.workspace import Setup
from cplsr.errors import InputError
from cplsr.files import write_json
from cplsr.settings.training import TrainingSettings

FILE = "tuning.json"


def tuning_jobs(
    runs: Iterable[Run], setup: Setup, out: Path, *, rates: Sequence[float], episodes: int, seed: int
) -> list[Job]:
    """Short trainings of every row and shot among `runs` that has the seed, at every rate."""
    if not rates or len(set(rates)) < len(rates) or min(rates) <= 0:
        raise InputError(f"tune_rates are {list(rates)}: give at least one, each once, all above 0")
    return [
        _job(replace(run, settings=_short(run.settings, rate, episodes)), setup, out)
        for run in runs
        if not run.frozen and run.settings.seed == seed
        for rate in sorted(rates)
    ]


def choose_rates(jobs: Sequence[Job], out: Path) -> dict[str, float]:
    """The rate of every row with the best last validation accuracy, averaged over shots; of equals the smallest.

    A rate at which a training failed is not chosen. The choice and all accuracies are added to `tuning.json`.
    """
    accuracies: dict[str, dict[float, list[float | None]]] = {}
    for job in jobs:
        accuracies.setdefault(job.run.row, {}).setdefault(job.run.settings.lr, []).append(_last_accuracy(job))
    means = {
        row: {rate: sum(known) / len(known) for rate, found in by_rate.items() if (known := _all_known(found))}
        for row, by_rate in accuracies.items()
    }
    chosen = {row: max(by_rate, key=lambda rate: (by_rate[rate], -rate)) for row, by_rate in means.items() if by_rate}
    if jobs:
        _write(out / FILE, jobs, means, chosen)
    return chosen


def read_rates(out: Path) -> dict[str, float]:
    """The rates chosen earlier, by row; none where no tuning took place."""
    if not (out / FILE).is_file():
        return {}
    return {row: float(entry["rate"]) for row, entry in read_record(out / FILE)["rows"].items()}


def _job(run: Run, setup: Setup, out: Path) -> Job:
    settings = run.settings
    name = f"{slug(run.row)}-lr{settings.lr:g}-{settings.shot}shot-seed{settings.seed}"
    return Job(run, setup, out / "tuning" / name)


def _short(settings: TrainingSettings, rate: float, episodes: int) -> TrainingSettings:
    return replace(settings, lr=rate, episodes=episodes, validate_every=0, select="last")


def _last_accuracy(job: Job) -> float | None:
    if not (job.folder / "run.json").is_file():
        return None
    told = read_record(job.folder / "run.json")
    return float(told["last_accuracy"]) if told["finished"] else None


def _all_known(found: list[float | None]) -> list[float]:
    known = [accuracy for accuracy in found if accuracy is not None]
    return known if len(known) == len(found) else []


def _write(
    file: Path, jobs: Sequence[Job], means: Mapping[str, Mapping[float, float]], chosen: Mapping[str, float]
) -> None:
    rows = read_record(file)["rows"] if file.is_file() else {}
    for row, rate in chosen.items():
        tried = [job for job in jobs if job.run.row == row]
        rows[row] = {
            "rate": rate,
            "validation_accuracy": {f"{tried_rate:g}": mean for tried_rate, mean in means[row].items()},
            "failed": [f"{tried_rate:g}" for tried_rate in _rates(tried) if tried_rate not in means[row]],
            "episodes": tried[0].run.settings.episodes,
            "shots": sorted({job.run.settings.shot for job in tried}),
            "seed": tried[0].run.settings.seed,
        }
    write_json(file, {"rows": rows})


def _rates(jobs: Sequence[Job]) -> list[float]:
    return list(dict.fromkeys(job.run.settings.lr for job in jobs))
