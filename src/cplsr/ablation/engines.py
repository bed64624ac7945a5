"""Where jobs run: one after the other in this process, or at once as tasks of ray."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from cplsr.ablation.run import Job, perform
from cplsr.ablation.workspace import Setup, Workspace
from cplsr.engines import on_ray, ray_cluster
from cplsr.errors import InputError, first_line
from cplsr.files import UnwritableError
from cplsr.settings.ablation import RaySettings

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """A job that has ended, and why it failed, if it did."""

    job: Job
    error: str | None = None


def run_local(jobs: Sequence[Job], workspace: Workspace) -> Iterator[Outcome]:
    """Do one job after the other, and tell of each as it ends; one that fails does not keep the others from running.

    Raises:
        InputError: If a target cannot be measured, before anything is trained.
    """
    if workspace.setup.threads is not None:
        torch.set_num_threads(workspace.setup.threads)
    workspace.check([job.run for job in jobs if job.record is not None])
    for number, job in enumerate(jobs, start=1):
        _log.info("[%d/%d] %s", number, len(jobs), job.run.title)
        yield Outcome(job, _why_failed(job, workspace))


def run_on_ray(jobs: Sequence[Job], options: RaySettings) -> Iterator[Outcome]:
    """Do all jobs as tasks of ray, and tell of each as it ends; what they share is made first, by one task.

    Workers write their files themselves: the ablation's folder and the cache must be on a disk they all see.

    Raises:
        InputError: If ray is not installed or not reachable, or a target cannot be measured.
    """
    if not jobs:
        return
    cpus, gpus = jobs[0].setup.threads or 1, options.ray_gpus
    with ray_cluster(options, options.ray_workers, cpus):
        _log.info("making what all runs share")
        for prepared in on_ray(_prepare_here, [list(jobs)], cpus=cpus, gpus=gpus, attempts=1):
            if prepared.error is not None:
                raise prepared.error
        for ended in on_ray(_perform_here, jobs, cpus=cpus, gpus=gpus, attempts=1):
            error = ended.error
            told = ended.result if error is None else f"{type(error).__name__}: {first_line(error)}"
            yield Outcome(ended.item, told)


@lru_cache(maxsize=1)
def _workspace_here(setup: Setup) -> Workspace:
    """The workspace of a ray worker: tasks that follow each other in one process load it once."""
    torch.set_num_threads(setup.threads or 1)
    return Workspace(setup)


def _prepare_here(jobs: list[Job]) -> None:
    workspace = _workspace_here(jobs[0].setup)
    measured = [job.run for job in jobs if job.record is not None]
    workspace.check(measured)
    workspace.fill_caches([job.run for job in jobs], targets=bool(measured))


def _perform_here(job: Job) -> str | None:
    try:
        return _why_failed(job, _workspace_here(job.setup))
    except UnwritableError as error:  # of this worker's machine; others may have room
        return str(error)


def _why_failed(job: Job, workspace: Workspace) -> str | None:
    try:
        perform(job, workspace)
    except UnwritableError:  # the other runs could not be kept either
        raise
    except InputError as error:
        return str(error)
    except Exception as error:  # whatever it is, the other runs can still be done
        _log.exception("%s failed", job.run.title)
        return f"{type(error).__name__}: {first_line(error)}"
    return None
