"""Commands that are killed at random moments and given again end with what they would have ended with."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from soak.forks import run
from soak.world import World

NOT_REPEATED = frozenset({"seconds", "images_per_second", "prototype_seconds", "command", "threads"})
"""What is measured by the clock, or names the place."""


def save_often() -> None:
    """Let `cplsr train` keep its state after every episode, so that kills fall between and into savings."""
    from cplsr.training import run

    run.SAVE_SECONDS = 0.0


def outcome_of_run(out: Path) -> Any:
    """Adapters to the last bit, and all figures but speeds."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [(out / part / "adapter.safetensors").read_bytes() for part in ("adapter", "last")], _timeless(lines)


def outcome_of_json(out: Path) -> Any:
    return _timeless(json.loads(out.read_text()))


def outcome_of_ablation(out: Path) -> Any:
    """All figures; the rest names the place."""
    records = {file.name: json.loads(file.read_text())["results"] for file in out.glob("*-seed*.json")}
    return {name: (results["rows"], results["paired"]) for name, results in records.items()}


def _timeless(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _timeless(value) for key, value in content.items() if key not in NOT_REPEATED}
    return [_timeless(value) for value in content] if isinstance(content, list) else content


Verb = tuple[str, tuple[str, ...], Callable[[Path], Any]]
VERBS: dict[str, Verb] = {
    "train": ("run", ("--resume", "--episodes", "12"), outcome_of_run),
    "evaluate": ("results.json", ("--head", "prototypes", "logistic"), outcome_of_json),
    "classify": ("predictions.csv", ("--force",), Path.read_bytes),
    "ablate": ("ablation", (), outcome_of_ablation),
}
"""Of every verb what it writes, more options, and what must be the same in the end."""


class Trial:
    """One verb, again and again in fresh folders until it was killed as often as wanted."""

    def __init__(self, world: World, verb: str, seed: int, place: Path) -> None:
        self.world, self.verb, self.place = world, verb, place
        self.random = random.Random(f"{verb} {seed}")
        self.name, self.more, self.outcome = VERBS[verb]

    def run(self, kills: int) -> int:
        """Kill that often; returns how many runs were finished and compared.

        A run that goes on after a kill is shorter than the first one, so kills come later and later only in the mean.
        """
        begin = time.monotonic()
        wanted = self._finish(self._fresh("unkilled"), kill_after=None)
        duration = time.monotonic() - begin
        finished = done = 0
        while done < kills or finished == 0:
            folder = self._fresh(f"killed-{finished}")
            while done < kills:
                ended = self._go(folder, kill_after=self.random.uniform(0, duration))
                if ended != -signal.SIGKILL:
                    break
                done += 1
            found = self._finish(folder, kill_after=None)
            if found != wanted:
                raise AssertionError(f"{self.verb} ended with other results after a kill, see {folder}")
            finished += 1
        return finished

    def _fresh(self, name: str) -> Path:
        folder = self.place / f"{self.verb}-{name}"
        folder.mkdir(parents=True)
        return folder

    def _go(self, folder: Path, kill_after: float | None) -> int:
        words = getattr(self.world, self.verb)(Path(self.name), *self.more)
        ended = run(words, folder, kill_after=kill_after, first=save_often, seconds=300)
        if ended.code not in (0, -signal.SIGKILL):
            raise AssertionError(f"{self.verb} ended with {ended.code} in {folder}: {ended.err[-2000:]}")
        return ended.code

    def _finish(self, folder: Path, kill_after: float | None) -> Any:
        self._go(folder, kill_after)
        outcome = self.outcome(folder / self.name)
        leftovers = [path for path in folder.rglob("*.partial*") if "cache" not in path.parts]
        if any(not path.name.startswith(".") for path in leftovers):
            raise AssertionError(f"{leftovers[0]} was left by a run that is finished")
        return outcome


def kill_all(world: World, place: Path, kills: int, seed: int) -> None:
    """So many kills in all, shared among the verbs; prints how it went."""
    for number, verb in enumerate(VERBS):
        share = kills // len(VERBS) + (number < kills % len(VERBS))
        finished = Trial(world, verb, seed, place).run(share)
        print(f"{verb}: {share} kills, {finished} runs ended with the results of an unkilled one", flush=True)
