"""One run: train, measure, write down."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cplsr.ablation.plan import Run
from cplsr.ablation.workspace import Setup, Workspace
from cplsr.adapters.attach import adapter_of, attach, detach
from cplsr.adapters.kinds import accepts_option
from cplsr.environment import versions
from cplsr.errors import InputError
from cplsr.evaluation.cache import EmbeddingCache
from cplsr.evaluation.evaluate import evaluate
from cplsr.evaluation.results import Results
from cplsr.files import write_json
from cplsr.training.loop import TrainingResult, train

State = Literal["finished", "begun", "not begun"]


@dataclass(frozen=True)
class Job:
    """A run with everything it needs: what it shares with others, where its files go, how to repeat it.

    folder: where it is trained.
    record: the file that is written when it is measured, last of all; `None`: it is trained only.
    command: the one command that repeats this run, for the record.
    """

    run: Run
    setup: Setup
    folder: Path
    record: Path | None = None
    command: str = ""

    @classmethod
    def of(cls, run: Run, setup: Setup, out: Path, command: str = "") -> Job:
        """A run to be trained and measured, in its place in the folder of an ablation."""
        return cls(run, setup, out / "runs" / run.name, out / f"{run.name}.json", command)

    def decides(self) -> dict[str, Any]:
        """All that its figures depend on, as json would give it back."""
        run = self.run
        content = {
            "settings": {} if run.frozen else run.settings.as_dict(),
            "adapter": {"kind": run.adapter, "options": _adapter_options(run)},
            "method": {} if run.frozen else _method(run),
            "setup": self.setup.decides(run),
        }
        return json.loads(json.dumps(content))


def state_of(job: Job) -> State:
    """How far a run is. One that was begun with other settings is an error: its files are never mixed with new ones."""
    wanted = job.decides()
    for state, file in (("finished", job.record), ("begun", job.folder / "run.json")):
        if file is not None and file.is_file():
            old = read_record(file)
            parts = [part for part in wanted if part in old]
            if changes := [change for part in parts for change in _differences(old[part], wanted[part])]:
                raise InputError(
                    f"{job.run.title!r} was {state} with other settings ({'; '.join(changes)}; see {file}): give the "
                    "same ones, or another --out"
                )
            return state  # type: ignore[return-value]
    return "not begun"


def perform(job: Job, workspace: Workspace) -> None:
    """Train, unless that is done, continuing where it was interrupted; then measure, and write the record."""
    if state_of(job) == "finished":
        return
    if job.record is None:
        train_run(job.run, workspace, job.folder)
        return
    training = None if job.run.frozen else train_run(job.run, workspace, job.folder)
    results = measure(job, workspace)
    content = {
        "row": job.run.row,
        "shot": job.run.settings.shot,
        "seed": job.run.settings.seed,
        **job.decides(),
        "backbone": workspace.backbone.description(),
        "results": results.to_json(),
        "training": None if training is None else _told(training, count_parameters(job.run, workspace)),
        "command": job.command,
        "versions": versions(),
    }
    write_json(job.record, content)


def train_run(run: Run, workspace: Workspace, folder: Path) -> TrainingResult:
    """Train the run's adapter in a folder of its own, from the beginning or from where it was interrupted."""
    base, val = workspace.training_domains(run.settings)
    return train(
        workspace.backbone,
        base,
        val,
        out=folder,
        adapter=run.adapter,
        adapter_options=run.adapter_options,
        settings=run.settings,
        objective=run.objective(),
        resume=True,
        workers=workspace.setup.workers,
    )


def measure(job: Job, workspace: Workspace) -> Results:
    """The frozen backbone and the run's adapter on the same episodes of every target."""
    setup = workspace.setup
    return evaluate(
        workspace.backbone,
        workspace.targets,
        adapters=[] if job.run.frozen else [(job.run.row, job.folder)],
        settings=setup.evaluation(job.run.settings),
        match_shot=setup.match_shot,
        cache=EmbeddingCache(),
        batch_size=setup.batch_size,
        workers=setup.workers,
    )


def count_parameters(run: Run, workspace: Workspace) -> int:
    """Parameters that the run trains."""
    attach(workspace.backbone, run.adapter, **run.adapter_options)
    try:
        return sum(parameter.numel() for parameter in adapter_of(workspace.backbone).parameters())
    finally:
        detach(workspace.backbone)


def read_record(file: Path) -> dict[str, Any]:
    """A file that a run wrote."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read ({error}): remove it, and that run is done again") from error
    if not isinstance(content, dict):
        raise InputError(f"{file} is not the record of a run: remove it, and that run is done again")
    return content


def read_records(out: Path, rows: Iterable[str]) -> list[dict[str, Any]]:
    """The records of all finished runs in a folder: those of the given rows first and in their order, then others."""
    found = [read_record(file) for file in sorted(out.glob("*-seed*.json"))]
    order = {row: place for place, row in enumerate(rows)}
    records = [record for record in found if {"row", "shot", "seed", "results"} <= record.keys()]
    return sorted(records, key=lambda r: (order.get(r["row"], len(order)), r["row"], r["shot"], r["seed"]))


def _adapter_options(run: Run) -> dict[str, Any]:
    """With the seed that `train` adds where the kind draws its start values."""
    if run.frozen or not accepts_option(run.adapter, "seed"):
        return dict(run.adapter_options)
    return {**run.adapter_options, "seed": run.adapter_options.get("seed", run.settings.seed)}


def _method(run: Run) -> dict[str, Any]:
    """As `train` writes it down: with the options that were left at their defaults."""
    objective = run.objective()
    return {"name": run.method, "options": {} if objective is None else objective.options}


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    names = sorted(old.keys() | new.keys())
    return [f"{name}: {old.get(name)}, now {new.get(name)}" for name in names if old.get(name) != new.get(name)]


def _told(result: TrainingResult, parameters: int) -> dict[str, Any]:
    return {
        "start_accuracy": result.start_accuracy,
        "best_accuracy": result.best_accuracy,
        "best_episode": result.best_episode,
        "last_accuracy": result.last_accuracy,
        "seconds": result.seconds,
        "parameters": parameters,
    }
