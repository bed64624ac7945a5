"""A learning rate for every row, chosen on validation classes; no target domain is opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypedDict

from cplsr.ablation.plan import Run, slug
from cplsr.ablation.run import Job
from cplsr.ablation.workspace import Setup
from cplsr.declared import read_record
from cplsr.errors import InputError
from cplsr.files import write_json
from cplsr.records.run import RUN, TrainingRun
from cplsr.settings.training import TrainingSettings

FILE = "tuning.json"


class Tuned(TypedDict):
    """The learning rate chosen for a row, and what it was chosen by.

    Attributes:
        rate: The rate.
        validation_accuracy: By every rate that was tried, the last validation accuracy, averaged over shots.
        failed: Rates at which a training failed.
        episodes: Base episodes of the trainings.
        shots: The shots they were done at.
        seed: Their seed.
    """

    rate: float
    validation_accuracy: dict[str, float]
    failed: list[str]
    episodes: int
    shots: list[int]
    seed: int


@dataclass(frozen=True)
class _Tuning:
    """The content of tuning.json."""

    rows: dict[str, Tuned]


def tuning_jobs(
    runs: Iterable[Run], setup: Setup, out: Path, *, rates: Sequence[float], episodes: int, seed: int
) -> list[Job]:
    """Make jobs of short trainings, at every rate, of the runs that have the seed.

    Args:
        runs: The runs of the ablation; frozen ones are passed over.
        setup: What all of them share.
        out: The folder of the ablation.
        rates: The learning rates to try.
        episodes: Base episodes of each training.
        seed: The one seed that is tried.

    Raises:
        InputError: If there is no rate, one twice, or one that is not above 0.
    """
    if not rates or len(set(rates)) < len(rates) or min(rates) <= 0:
        raise InputError(f"tune_rates are {list(rates)}: give at least one, each once, all above 0")
    return [
        _job(replace(run, settings=_short(run.settings, rate, episodes)), setup, out)
        for run in runs
        if not run.frozen and run.settings.seed == seed
        for rate in sorted(rates)
    ]


def choose_rates(jobs: Sequence[Job], out: Path) -> dict[str, float]:
    """Choose for every row the rate with the best last validation accuracy, averaged over shots.

    Of equals the smallest is taken, and none at which a training failed. The choice and all accuracies are added to
    `tuning.json`.

    Returns:
        The rate by row; rows of which every rate failed are missing.
    """
    accuracies: dict[str, dict[float, list[float | None]]] = {}
    for job in jobs:
        accuracies.setdefault(job.run.row, {}).setdefault(job.run.settings.lr, []).append(_last_accuracy(job))
    means = {
        row: {rate: sum(known) / len(known) for rate, measured in by_rate.items() if (known := _all_known(measured))}
        for row, by_rate in accuracies.items()
    }
    chosen = {row: max(by_rate, key=lambda rate: (by_rate[rate], -rate)) for row, by_rate in means.items() if by_rate}
    if jobs:
        _write(out / FILE, jobs, means, chosen)
    return chosen


def read_rates(out: Path) -> dict[str, float]:
    """Read the rates chosen earlier, by row; none where no tuning took place."""
    return {row: entry["rate"] for row, entry in _read(out / FILE).items()}


def _job(run: Run, setup: Setup, out: Path) -> Job:
    settings = run.settings
    name = f"{slug(run.row)}-lr{settings.lr:g}-{settings.shot}shot-seed{settings.seed}"
    return Job(run, setup, out / "tuning" / name)


def _short(settings: TrainingSettings, rate: float, episodes: int) -> TrainingSettings:
    return replace(settings, lr=rate, episodes=episodes, validate_every=0, select="last")


def _last_accuracy(job: Job) -> float | None:
    record = TrainingRun.read(job.folder) if (job.folder / RUN).is_file() else None
    return record.last_accuracy if record is not None and record.finished else None


def _all_known(accuracies: list[float | None]) -> list[float]:
    known = [accuracy for accuracy in accuracies if accuracy is not None]
    return known if len(known) == len(accuracies) else []


def _write(
    file: Path, jobs: Sequence[Job], means: Mapping[str, Mapping[float, float]], chosen: Mapping[str, float]
) -> None:
    rows = _read(file)
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
    write_json(file, asdict(_Tuning(rows)))


def _read(file: Path) -> dict[str, Tuned]:
    return read_record(file, _Tuning, "chosen rates (written by `cplsr ablate`)").rows if file.is_file() else {}


def _rates(jobs: Sequence[Job]) -> list[float]:
    return list(dict.fromkeys(job.run.settings.lr for job in jobs))
