"""One run: train, measure, write down."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from cplsr.ablation.plan import Run
from cplsr.ablation.workspace import Setup, Workspace
from cplsr.adapters.attach import attached
from cplsr.adapters.full import Full
from cplsr.adapters.kinds import default_options
from cplsr.analysis.cost import forward_seconds
from cplsr.backbones.backbone import Backbone
from cplsr.environment import versions
from cplsr.errors import InputError
from cplsr.evaluation.adapting import AdaptationRequest, measure_adaptation
from cplsr.evaluation.cache import EmbeddingCache
from cplsr.evaluation.evaluate import evaluate, measure_snapshots
from cplsr.methods.registry import METHODS, learning_kind
from cplsr.methods.support_tuning import TUNED
from cplsr.records.ablation import AblationRun, Declaration, TrainingOutcome
from cplsr.records.public import public
from cplsr.records.results import FROZEN, Results, SnapshotRow
from cplsr.records.run import RUN, TrainingRun
from cplsr.training.loop import TrainingResult, train
from cplsr.training.run_folder import told_differences

State = Literal["finished", "begun", "not begun"]


@dataclass(frozen=True)
class Job:
    """A run with everything that is needed to do it in a folder, also on another machine.

    record: the file that is written when it is measured, last of all; `None`: it is trained only.
    command: the one that repeats this run, for the record.
    """

    run: Run
    setup: Setup
    folder: Path
    record: Path | None = None
    command: str = ""

    @classmethod
    def of(cls, run: Run, setup: Setup, out: Path, command: str = "") -> Job:
        """Make the job to train and measure a run, with its files in the folder of an ablation."""
        return cls(run, setup, out / "runs" / run.name, out / f"{run.name}.json", command)

    def figure_settings(self) -> dict[str, Any]:
        """All settings that its figures depend on, as they are read back from json."""
        run = self.run
        content = {
            "settings": {} if run.frozen else run.settings.as_dict(),
            "adapter": {"kind": run.adapter, "options": _adapter_options(run)},
            "method": {} if run.frozen else _method(run),
            "adapt": _adapt(run),
            "setup": self.setup.figure_settings(run),
        }
        return json.loads(json.dumps(content))


def state_of(job: Job) -> State:
    """Look how far a run is, and refuse one begun with other settings: its files are never mixed with new ones."""
    state: State
    old: AblationRun | TrainingRun
    if job.record is not None and job.record.is_file():
        state, old, file = "finished", AblationRun.read(job.record), job.record
    elif (job.folder / RUN).is_file():
        state, old, file = "begun", TrainingRun.read(job.folder), job.folder / RUN
    else:
        return "not begun"
    wanted = public(job.figure_settings())
    parts = [(before, after) for part, after in wanted.items() if (before := getattr(old, part, None)) is not None]
    if changes := [change for before, after in parts for change in told_differences(before, after)]:
        raise InputError(
            f"{job.run.title!r} was {state} with other settings ({'; '.join(changes)}; see {file}): give the same "
            "ones, or another --out"
        )
    return state


def perform(job: Job, workspace: Workspace) -> None:
    """Train, from where an interruption left it, then measure and write the record; what is done is not repeated."""
    if state_of(job) == "finished":
        return
    if job.record is None:
        train_run(job, workspace)
        return
    training = None if job.run.frozen else train_run(job, workspace)
    snapshots: tuple[SnapshotRow, ...] = ()
    pooling, head = workspace.setup.read_as(job.run)
    with workspace.pooled(pooling):
        results, seconds = measure(job, workspace)
        backbone = workspace.backbone.description()
        if _keeps_snapshots(job):
            snapshots = measure_snapshots(workspace.backbone, workspace.targets, job.folder, head, **_measuring(job))
    AblationRun(
        row=job.run.row,
        shot=job.run.settings.shot,
        seed=job.run.settings.seed,
        **job.figure_settings(),
        backbone=backbone,
        results=results,
        training=None if training is None else _training_outcome(training, count_parameters(job.run, workspace)),
        declared=declared(job.run),
        seconds_per_target_episode=None if seconds is None else round(seconds, 3),
        command=job.command,
        snapshots=snapshots,
        versions=versions(),
    ).write(job.record)


def train_run(job: Job, workspace: Workspace) -> TrainingResult:
    """Train the run's adapter in a folder of its own, from the beginning or from where it was interrupted."""
    run = job.run
    base, val = workspace.training_domains(run.settings)
    with workspace.pooled(workspace.setup.trained_pooling(run)):
        return train(
            workspace.backbone,
            base,
            val,
            out=job.folder,
            adapter=run.adapter,
            adapter_options=run.adapter_options,
            settings=run.settings,
            objective=run.objective(),
            resume=True,
            snapshots=_keeps_snapshots(job),
            workers=workspace.setup.workers,
            command=job.command or None,
        )


def measure(job: Job, workspace: Workspace) -> tuple[Results, float | None]:
    """Measure the frozen backbone and the run on the same episodes; tell the seconds of an episode, where known.

    In the figures both go by their plain names, however they were read.
    """
    setup, run, shared = workspace.setup, job.run, _measuring(job)
    adapters = [] if run.frozen else [(run.row, job.folder)]
    adaptation = run.adaptation()
    if adaptation is None:
        head = setup.read_as(run)[1]
        results = evaluate(workspace.backbone, workspace.targets, adapters=adapters, heads=[head], **shared)
        return _by_plain_names(results, run.row), prototype_seconds(workspace.backbone, run, shared["settings"].query)
    results = evaluate(workspace.backbone, workspace.targets, **shared)
    adapted = measure_adaptation(
        workspace.backbone,
        workspace.targets,
        AdaptationRequest(run.adapts_by, adaptation, run.adapt, frozen=False),
        adapters=adapters,
        **shared,
    )
    together = replace(
        results,
        rows=(*results.rows, *(replace(row, method=run.row) for row in adapted.rows)),
        paired=tuple(replace(row, method=run.row) for row in adapted.paired),
        flags=(*results.flags, *(f"{run.row}, {reason}" for reason in adapted.left_out)),
    )
    return together, next(iter(adapted.seconds.values()), None)


def _measuring(job: Job) -> dict[str, Any]:
    """Options of all measurements."""
    setup = job.setup
    return {
        "settings": setup.evaluation(job.run.settings),
        "match_shot": setup.match_shot,
        "cache": EmbeddingCache(),
        "batch_size": setup.batch_size,
        "workers": setup.workers,
    }


def _keeps_snapshots(job: Job) -> bool:
    """Whether all snapshots are measured: not those of runs that adapt, which takes too long to do it many times."""
    return job.setup.best_on_target and job.record is not None and not job.run.frozen and job.run.adapt == 0


def _by_plain_names(results: Results, row: str) -> Results:
    """The frozen backbone, which stands first, and the row, without what they were read with."""
    names = {method: row if number else FROZEN for number, method in enumerate(results.methods)}
    changed: dict[str, Any] = {
        part: tuple(replace(each, method=names[each.method]) for each in getattr(results, part))
        for part in ("rows", "confusion", "calibration")
    }
    paired = tuple(replace(each, method=row, against=FROZEN) for each in results.paired)
    return replace(results, **changed, paired=paired)


def prototype_seconds(backbone: Backbone, run: Run, query: int) -> float | None:
    """Time one target episode by prototypes: its images through the backbone, the fastest of three times.

    `None` where the images do not fit into memory at once.
    """
    size = backbone.image_size
    images = torch.zeros(run.settings.way * (run.settings.shot + query), 3, size, size, dtype=torch.uint8)
    with nullcontext() if run.frozen else attached(backbone, run.adapter, run.adapter_options):
        times = [forward_seconds(backbone, images) for _ in range(3)]
    return min((seconds for seconds in times if seconds is not None), default=None)


def declared(run: Run) -> Declaration:
    """Say in words what the run trains and what it may look at."""
    if run.frozen:
        return {"trains": "nothing", "sees": "nothing"}
    tunes = "" if run.adapt == 0 else f"; tunes on each support set ({run.adapt} episodes)"
    kind = learning_kind(run.adapter, run.adapter_options)
    return {"trains": "backbone" if kind == Full.kind else kind, "sees": METHODS.find(run.method).sees + tunes}


def count_parameters(run: Run, workspace: Workspace) -> int:
    """Count the parameters that the run trains."""
    with attached(workspace.backbone, run.adapter, run.adapter_options) as adapter:
        return sum(parameter.numel() for parameter in adapter.parameters())


def read_records(out: Path, rows: Iterable[str]) -> list[AblationRun]:
    """Read the records of all finished runs in a folder: those of the given rows first, in their order, then others."""
    order = {row: position for position, row in enumerate(rows)}
    records = [AblationRun.read(file) for file in out.glob("*-seed*.json")]
    return sorted(records, key=lambda r: (order.get(r.row, len(order)), r.row, r.shot, r.seed))


def _adapter_options(run: Run) -> dict[str, Any]:
    """With the seed that `train` adds where the kind draws its start values."""
    if run.frozen or "seed" not in default_options(run.adapter):
        return dict(run.adapter_options)
    return {**run.adapter_options, "seed": run.adapter_options.get("seed", run.settings.seed)}


def _method(run: Run) -> dict[str, Any]:
    """As `train` writes it down: with the options that were left at their defaults."""
    objective = run.objective()
    return {"name": run.method, "options": {} if objective is None else objective.options}


def _adapt(run: Run) -> dict[str, Any]:
    """What is done with the support sets of targets, with the options that were left at their defaults."""
    adaptation = run.adaptation()
    if adaptation is None:
        return {}
    tuned = {"by": TUNED} if run.tune_on_support else {}
    return {"episodes": run.adapt, "options": adaptation.options, **tuned}


def _training_outcome(result: TrainingResult, parameters: int) -> TrainingOutcome:
    return {
        "start_accuracy": result.start_accuracy,
        "best_accuracy": result.best_accuracy,
        "best_episode": result.best_episode,
        "last_accuracy": result.last_accuracy,
        "seconds": result.seconds,
        "parameters": parameters,
    }
