"""Where jobs run: one after the other in this process, or at once as tasks of ray."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cplsr.ablation.run import Job, perform
from cplsr.ablation.workspace import Setup, Workspace
from cplsr.errors import InputError
from cplsr.files import UnwritableError
from cplsr.settings.ablation import RaySettings

OBJECT_STORE = 100 * 2**20
"""Bytes of shared memory for a local ray: tasks exchange only names and sentences."""

CONNECT_SECONDS = 5.0

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
        import torch

        torch.set_num_threads(workspace.setup.threads)
    _check(jobs, workspace)
    for number, job in enumerate(jobs, start=1):
        _log.info("[%d/%d] %s", number, len(jobs), job.run.title)
        yield _outcome(job, workspace)


def run_on_ray(jobs: Sequence[Job], setup: Setup, options: RaySettings) -> Iterator[Outcome]:
    """Do all jobs as tasks of ray, and tell of each as it ends; what they share is made first, by one task.

    Workers write their files themselves: the ablation's folder and the cache must be on a disk they all see.

    Raises:
        InputError: If ray is not installed or not reachable, or a target cannot be measured.
    """
    if not jobs:
        return
    ray = import_ray()
    cpus = setup.threads or 1
    with _cluster(ray, options, cpus):
        remote = ray.remote(num_cpus=cpus, num_gpus=options.ray_gpus, max_retries=0)
        _log.info("making what all runs share")
        try:
            ray.get(remote(_prepare_here).remote(list(jobs), setup))
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, InputError):
                raise error.cause from None
            raise
        waiting = {remote(_perform_here).remote(job): job for job in jobs}
        try:
            while waiting:
                ready, _ = ray.wait(list(waiting), num_returns=1)
                job = waiting.pop(ready[0])
                try:
                    yield Outcome(job, ray.get(ready[0]))
                except ray.exceptions.RayError as error:  # a worker that was killed, a machine that went away
                    yield Outcome(job, f"{type(error).__name__}: {_first_line(error)}")
        finally:
            for reference in waiting:
                ray.cancel(reference, force=True)


def import_ray() -> Any:
    """Import ray; if it is not installed, raise an `InputError` that says how to install it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise InputError("--engine ray needs ray: pip install 'cplsr[ray]', or leave --engine out") from error
    return ray


@contextmanager
def _cluster(ray: Any, options: RaySettings, cpus: int) -> Iterator[None]:
    """Connected to ray; afterwards disconnected, and a local cluster is ended."""
    address = options.ray_address or os.environ.get("RAY_ADDRESS")
    if ray.is_initialized():
        yield
        return
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address:
        try:
            _knock(address)
            ray.init(address=address, **quiet)
        except OSError as error:  # ray's ConnectionError is one too
            raise InputError(
                f"there is no ray cluster at {address!r} ({_first_line(error)}): start one with ray start --head, or "
                "give another --ray-address"
            ) from error
    else:
        workers = options.ray_workers or max(1, (os.cpu_count() or 1) // cpus)
        ray.init(
            address="local",
            num_cpus=workers * cpus,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE,
            _node_ip_address="127.0.0.1",
            **quiet,
        )
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Fail at once where nobody listens at HOST:PORT; ray itself would go on trying for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()


@lru_cache(maxsize=1)
def _workspace_here(setup: Setup) -> Workspace:
    """The workspace of a ray worker: tasks that follow each other in one process load it once."""
    import torch

    torch.set_num_threads(setup.threads or 1)
    return Workspace(setup)


def _prepare_here(jobs: list[Job], setup: Setup) -> None:
    workspace = _workspace_here(setup)
    _check(jobs, workspace)
    workspace.fill_caches([job.run for job in jobs], targets=any(job.record is not None for job in jobs))


def _perform_here(job: Job) -> str | None:
    try:
        return _outcome(job, _workspace_here(job.setup)).error
    except UnwritableError as error:  # of this worker's machine; others may have room
        return str(error)


def _check(jobs: Sequence[Job], workspace: Workspace) -> None:
    """Before hours are spent: can what will be measured be measured?"""
    workspace.check([job.run for job in jobs if job.record is not None])


def _outcome(job: Job, workspace: Workspace) -> Outcome:
    try:
        perform(job, workspace)
    except UnwritableError:  # the other runs could not be kept either
        raise
    except InputError as error:
        return Outcome(job, str(error))
    except Exception as error:  # whatever it is, the other runs can still be done
        _log.exception("%s failed", job.run.title)
        return Outcome(job, f"{type(error).__name__}: {_first_line(error)}")
    return Outcome(job)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or "no reason was given").splitlines()[0]
