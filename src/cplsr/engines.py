"""Many pieces of work at once: by processes of this machine, or as tasks of ray. Whoever dies, its piece is done again.

A piece of work is a function (importable, so that another process finds it) and an item (picklable). What is worth
keeping between pieces, such as a loaded backbone, the function itself keeps, once in each process.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Generic, TypeVar

from cplsr.errors import InputError, first_line
from cplsr.settings.engine import ClusterSettings

OBJECT_STORE = 100 * 2**20
"""Bytes of shared memory for a local ray: tasks exchange only names and sentences."""

CONNECT_SECONDS = 5.0
PARENT_CHECK_SECONDS = 1.0
ATTEMPTS = 3
"""How often work is begun again because a worker was ended from outside."""

AHEAD = 2
"""Items that wait or are worked on, for each worker: all others stay where they come from."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Ended(Generic[Item, Result]):
    """A piece of work that has ended: its result, or what it raised."""

    item: Item
    result: Result | None = None
    error: Exception | None = None


def in_processes(
    work: Callable[[Item], Result], items: Iterable[Item], processes: int
) -> Iterator[Ended[Item, Result]]:
    """Do all items by `processes` processes of this machine, and tell of each as it ends.

    If one of them is killed, new ones begin, and what was under way is done again.
    """
    source, breaks = iter(items), 0
    while breaks < ATTEMPTS:
        running: dict[Future[Result], Item] = {}
        pool = ProcessPoolExecutor(
            processes, multiprocessing.get_context("spawn"), initializer=_begin_process, initargs=(os.getpid(),)
        )
        others = set(multiprocessing.active_children())
        try:
            again: list[Item] = []
            while not again:
                for item in islice(source, AHEAD * processes - len(running)):
                    running[pool.submit(work, item)] = item
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    ended = _ended(running.pop(future), future)
                    if isinstance(ended.error, BrokenProcessPool):
                        again.append(ended.item)
                    else:
                        breaks = 0
                        yield ended
            source = chain(again, running.values(), source)
            breaks += 1
        except BaseException:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
    raise InputError(
        f"{ATTEMPTS} times in a row a process was ended from outside before it had finished anything (is there too "
        "little memory?): give fewer --processes; the same command goes on where this stopped"
    )


def _ended(item: Item, future: Future[Result]) -> Ended[Item, Result]:
    error = future.exception()
    if error is None:
        return Ended(item, future.result())
    if not isinstance(error, Exception):
        raise error
    return Ended(item, error=error)


def _begin_process(parent: int) -> None:
    """A process of the pool: Ctrl-C is its parent's affair."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent)


def end_with_parent(parent: int) -> None:
    """End this process soon after its parent has gone, even if the parent was killed.

    A worker that waits for room in the pipe to a dead parent would wait for ever: its siblings hold the pipe open.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_CHECK_SECONDS)
        os._exit(1)

    if os.name == "posix":
        threading.Thread(target=watch, daemon=True).start()


def on_ray(
    work: Callable[[Item], Result], items: Iterable[Item], *, cpus: int, gpus: float = 0.0, attempts: int = ATTEMPTS
) -> Iterator[Ended[Item, Result]]:
    """Do all items as tasks of the ray that `ray_cluster` connected, and tell of each as it ends.

    Each is taken when there is room for it and given so many cores and GPUs; one whose worker or machine has gone is
    tried as often as `attempts` says, then the last error is told.
    """
    ray = import_ray()
    remote = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=attempts - 1)(work)
    source = iter(items)
    room = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)) // cpus)
    running: dict[Any, Item] = {}
    try:
        while True:
            for item in islice(source, room - len(running)):
                running[remote.remote(item)] = item
            if not running:
                return
            ready, _ = ray.wait(list(running), num_returns=1)
            item = running.pop(ready[0])
            try:
                yield Ended(item, ray.get(ready[0]))
            except ray.exceptions.RayTaskError as error:  # what `work` raised
                yield Ended(item, error=error.cause if isinstance(error.cause, InputError) else error)
            except ray.exceptions.RayError as error:  # a worker that was killed, a machine that went away
                lost = InputError(
                    f"a worker of ray was ended from outside before it had finished ({type(error).__name__}, in "
                    f"{attempts} of {attempts} attempts; is there too little memory?): let fewer work at a time; the "
                    "same command goes on where this stopped"
                )
                lost.__cause__ = error
                yield Ended(item, error=lost)
    finally:
        for reference in running:
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
def ray_cluster(options: ClusterSettings, workers: int | None, cpus: int) -> Iterator[None]:
    """Connected to ray; afterwards disconnected, and a local cluster is ended.

    On a cluster of this machine alone so many workers work at a time, by default as many as there are cores for, each
    on `cpus` cores.

    Raises:
        InputError: If ray is not installed or not reachable.
    """
    ray = import_ray()
    address = options.ray_address or os.environ.get("RAY_ADDRESS")
    if workers is not None and (address or ray.is_initialized()):
        warnings.warn(
            f"{workers} workers were asked for, but a cluster that runs already has as many as it has cores for: start "
            "one with fewer cores, or leave the number out",
            stacklevel=3,
        )
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
                f"there is no ray cluster at {address!r} ({first_line(error)}): start one with ray start --head, or "
                "give another --ray-address"
            ) from error
    else:
        workers = workers or max(1, (os.cpu_count() or 1) // cpus)
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
