"""Measuring both sides of a claim in one run, printing the table and writing the json.

A claim is never a lone figure: the two sides take turns, `repetitions` times, and the medians are compared, so that
a busy machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import torch


@dataclass(frozen=True)
class Claim:
    """One figure of ours beside one of theirs, and the bound that their ratio, ours / theirs, should keep.

    `better` is the good direction: `higher` for rates (the ratio should reach `goal`), `lower` for seconds and bytes
    (the ratio should not pass `goal`).
    """

    name: str
    ours: float
    theirs: float
    better: Literal["higher", "lower"]
    goal: float

    @property
    def ratio(self) -> float:
        """Ours as a multiple of theirs."""
        return self.ours / self.theirs

    @property
    def met(self) -> bool:
        """Whether the ratio keeps the goal."""
        return self.ratio >= self.goal if self.better == "higher" else self.ratio <= self.goal


def interleaved(sides: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Median seconds of each side, the sides taking turns; one round beforehand warms up and is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for round_ in range(repetitions + 1):
        for name, run in sides.items():
            start = time.perf_counter()
            run()
            elapsed = time.perf_counter() - start
            if round_ > 0:
                seconds[name].append(elapsed)
    return {name: statistics.median(times) for name, times in seconds.items()}


def _worker(build: Callable[[], Callable[[], object]], pipe: Connection) -> None:
    torch.set_num_threads(min(2, os.cpu_count() or 1))
    run = build()
    run()
    pipe.send(None)
    while pipe.recv():
        start = time.perf_counter()
        run()
        pipe.send(time.perf_counter() - start)


def interleaved_processes(
    sides: Mapping[str, Callable[[], Callable[[], object]]], repetitions: int
) -> dict[str, float]:
    """The same with every side in a process of its own, so that none profits from what another set up.

    A side is a function (importable, with picklable arguments) that prepares and returns what is to be timed. Only one
    process computes at a time; the others wait.
    """
    context = multiprocessing.get_context("spawn")
    pipes, processes = {}, []
    for name, build in sides.items():
        pipes[name], other = context.Pipe()
        processes.append(context.Process(target=_worker, args=(build, other), daemon=True))
        processes[-1].start()
        pipes[name].recv()  # one side after the other gets ready and warm
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repetitions):
        for name, pipe in pipes.items():
            pipe.send(True)
            seconds[name].append(pipe.recv())
    for pipe, process in zip(pipes.values(), processes, strict=True):
        pipe.send(False)
        process.join()
    return {name: statistics.median(times) for name, times in seconds.items()}


def arguments(description: str) -> argparse.Namespace:
    """The two switches that every benchmark has, and at most two threads."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, under two minutes")
    parser.add_argument("--json", type=Path, help="also write the claims to this file")
    torch.set_num_threads(min(2, os.cpu_count() or 1))
    return parser.parse_args()


def report(claims: list[Claim], json_file: Path | None = None, **more: object) -> None:
    """Print the claims as a table with the machine's load, and write them, and what else there is, where asked."""
    load = os.getloadavg()[0]
    print(f"\n{'claim':<58} {'ours':>11} {'theirs':>11} {'ratio':>9} {'goal':>10}  met   (load {load:.1f})")
    for claim in claims:
        bound = f"{'≥' if claim.better == 'higher' else '≤'} {claim.goal:g}x"
        print(
            f"{claim.name:<58} {claim.ours:>11.4g} {claim.theirs:>11.4g} {claim.ratio:>8.3f}x {bound:>10}"
            f"  {'yes' if claim.met else 'NO'}"
        )
    if json_file is not None:
        rows = [{**asdict(claim), "ratio": claim.ratio, "met": claim.met} for claim in claims]
        json_file.write_text(json.dumps({"claims": rows, "load": load, **more}, indent=2) + "\n", encoding="utf-8")
