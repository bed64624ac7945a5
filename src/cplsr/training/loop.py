"""Training an adapter, episode by episode."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cplsr.adapters.attach import attached
from cplsr.adapters.coalescent import Coalescent
from cplsr.adapters.kinds import check_options, default_options
from cplsr.backbones.backbone import Backbone
from cplsr.data.decoded_images import decoded_images, some_decoded_images
from cplsr.data.domain import Domain
from cplsr.declared import Declared
from cplsr.environment import versions
from cplsr.errors import InputError
from cplsr.files import only_writer
from cplsr.processes import Processes
from cplsr.records.run import TrainingRun
from cplsr.reservation.pseudo_episodes import PseudoEpisodeStream
from cplsr.settings.training import TrainingSettings
from cplsr.training.base_statistics import base_gaussians, class_means
from cplsr.training.episode_plan import needed_images
from cplsr.training.forecast import forecast
from cplsr.training.objective import JointObjective, Objective
from cplsr.training.run import Run, TrainingJob
from cplsr.training.run_folder import RunFolder, git_commit
from cplsr.training.validation import Validation, hold_out_classes

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingResult(Declared):
    """Where the run is, and how it went; accuracies are those of the validation episodes in percent."""

    folder: Path
    start_accuracy: float
    best_accuracy: float
    best_episode: int
    last_accuracy: float
    seconds: float
    already_finished: bool = False


def train(
    backbone: Backbone,
    base: Domain,
    val: Domain | None = None,
    *,
    out: str | Path,
    adapter: str = "coalescent",
    adapter_options: Mapping[str, Any] | None = None,
    settings: TrainingSettings | None = None,
    objective: Objective | None = None,
    resume: bool = False,
    snapshots: bool = False,
    workers: int | None = None,
    command: str | None = None,
) -> TrainingResult:
    """Train an adapter for `backbone` on a base domain, and leave it in the folder `out`.

    The folder gets `adapter/` (the selected one), `last/`, `metrics.jsonl` and `run.json`. The backbone is given back
    frozen, without the adapter.

    Args:
        backbone: The backbone, without an adapter.
        base: Images and classes to train on.
        val: Validation classes; default: the base domain's own split, else 20 % of its classes, held out by the seed.
        out: The folder of the run.
        adapter: Kind of the adapter, as for `attach`.
        adapter_options: Its options, as for `attach`.
        settings: All choices about the training.
        objective: The loss of an episode; default: CPLSR's.
        resume: Continue a run that was interrupted, with the same result as if it had not been.
        snapshots: Also keep the adapter of every validation, in the folder `snapshots`.
        workers: Processes that decode images; `None` takes as many as suit the machine.
        command: What was typed to start it, to be kept in `run.json`.

    Raises:
        InputError: The request cannot be trained, the folder holds another run, or the loss is no longer finite.
    """
    job = training_job(
        backbone,
        base,
        val,
        adapter=adapter,
        adapter_options=adapter_options,
        settings=settings,
        objective=objective,
        snapshots=snapshots,
    )
    processes = job.processes
    folder = RunFolder(Path(out))
    with only_writer(folder.path) if processes.first else nullcontext():
        begun = folder.begin(_describe(job, command), resume=resume) if processes.first else None
        if left := processes.gather(begun)[0]:
            if processes.first and _log.isEnabledFor(logging.INFO):  # a step is timed only where somebody reads it
                for sentence in forecast(job):
                    _log.info(sentence)
            _train(job, folder, workers)
        run = processes.gather(TrainingRun.read(folder.path) if processes.first else None)[0]
        return TrainingResult.of(run, folder=folder.path, already_finished=not left)


def training_job(
    backbone: Backbone,
    base: Domain,
    val: Domain | None = None,
    *,
    adapter: str = "coalescent",
    adapter_options: Mapping[str, Any] | None = None,
    settings: TrainingSettings | None = None,
    objective: Objective | None = None,
    snapshots: bool = False,
) -> TrainingJob:
    """Check whether what `train` is asked for can be trained, and find the validation classes; nothing is written."""
    settings = settings or TrainingSettings()
    objective = objective or JointObjective(settings)
    processes = Processes.find(backbone.device)
    _check_request(backbone, settings, objective, processes)
    base, val = _with_validation(base, val, settings)
    options = check_options(adapter, adapter_options or {})
    if settings.trust is not None and adapter != Coalescent.kind:
        raise InputError(
            f"trust bounds how far a coalescent projection goes, and a {adapter!r} adapter has none: leave --trust out"
        )
    if "seed" in default_options(adapter):
        options.setdefault("seed", settings.seed)
    with attached(backbone, adapter, options) as made:
        if not any(True for _ in made.parameters()):
            raise InputError(
                f"the adapter {adapter!r} has no parameters, so there is nothing to train: save it as it is, or let it "
                "carry an adapter that learns (--adapter-options adapter=coalescent)"
            )
    return TrainingJob(backbone, base, val, adapter, options, settings, objective, processes, snapshots)


def _train(job: TrainingJob, folder: RunFolder, workers: int | None) -> None:
    """Train in a folder that is ours alone."""
    backbone, settings, processes = job.backbone, job.settings, job.processes
    size = backbone.image_size
    needed = needed_images(job.base.labels, settings, partner=job.objective.partner)
    if needed is None:
        images = decoded_images(job.base, size, processes=processes, workers=workers)
    else:
        images = some_decoded_images(job.base, needed, size, processes=processes, workers=workers)
    val_images = decoded_images(job.val, size, processes=processes, workers=workers)
    pseudo = frozen_means = None
    if settings.pe:
        gaussians = base_gaussians(backbone, images, settings, processes=processes)
        pool, online = settings.pseudo_episodes, settings.online
        pseudo = PseudoEpisodeStream(gaussians, settings, seed=settings.seed, pool=pool, online=online)
        if settings.follow:
            frozen_means = class_means(backbone, images, settings, processes=processes)
    with attached(backbone, job.adapter, job.options):
        backbone.checkpointing = settings.checkpointing
        try:
            validation = Validation.of(val_images, settings)
            job.objective.length = settings.episodes * settings.turns_per_class // processes.count
            job.objective.prepare(backbone, len(images.classes) * settings.turns_per_class)
            job.objective.to(backbone.device)
            Run(job, folder, images, validation, pseudo, frozen_means).go()
        finally:
            backbone.checkpointing = False


def _check_request(backbone: Backbone, settings: TrainingSettings, objective: Objective, processes: Processes) -> None:
    at_once = settings.episodes_per_step * processes.count
    if settings.episodes % at_once:
        raise InputError(
            f"{settings.episodes} episodes cannot be dealt evenly to {processes.count} processes of "
            f"{settings.episodes_per_step} per step: give a multiple of {at_once}"
        )
    if backbone.adapter is not None:
        raise InputError("the backbone carries an adapter already: detach it before training another")
    if backbone.views != "plain":
        raise InputError(
            f"training looks at every image once, and the backbone was loaded with views {backbone.views!r}: train "
            "with --views plain, and evaluate the adapter with others"
        )
    # Other losses change tokens behind blocks that were read already; blocks behind the last one read learn nothing.
    own = isinstance(objective, JointObjective)
    if backbone.pooling == "depth" and not (own and backbone.layers - 1 in backbone.pooled_layers):
        raise InputError(
            "depth embeddings can be trained on only by CPLSR's own loss, with the last block among --layers: train "
            "with --pooling cls, and evaluate the adapter with --pooling depth"
        )


def _with_validation(base: Domain, val: Domain | None, settings: TrainingSettings) -> tuple[Domain, Domain]:
    if val is not None:
        return base, val
    if base.validation is not None:
        return base, base.validation()
    base, val = hold_out_classes(base, way=settings.way, seed=settings.seed)
    _log.warning(
        "no validation domain was given: %d of %d classes are held out for it, chosen by the seed",
        len(val.classes),
        len(val.classes) + len(base.classes),
    )
    return base, val


def _describe(job: TrainingJob, command: str | None) -> TrainingRun:
    return TrainingRun(
        settings=job.settings.as_dict(),
        method={"name": job.objective.name, "options": job.objective.options},
        adapter={"kind": job.adapter, "options": job.options},
        backbone=job.backbone.description(),
        data={
            role: {
                "name": domain.name,
                "classes": len(domain.classes),
                "images": len(domain),
                "fingerprint": domain.fingerprint,
                "flags": list(domain.flags),
            }
            for role, domain in (("base", job.base), ("val", job.val))
        },
        versions=versions(),
        git_commit=git_commit(),
        processes=job.processes.count,
        threads=torch.get_num_threads(),
        command=command,
    )
