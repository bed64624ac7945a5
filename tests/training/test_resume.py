"""Real kills: a process ended with SIGKILL at chosen points, then continued, ends with the same bits."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [
    *("--way", "2", "--shot", "2", "--query", "2", "--episodes", "8", "--lr", "1e-3", "--validation-episodes", "8"),
    *("--candidates", "10", "--pseudo-episodes", "3", "--validate-every", "3", "--shrinkage", "ledoit_wolf"),
    *("--threads", "1", "--workers", "0", "--heads", "2"),
]
OTHERWISE = ["--optimizer", "sgd", "--schedule", "cosine", "--warmup", "0.3", "--augment", "crop"]


def start(
    folder: Path, out: Path, checkpoint: Path, *more: str, slow: float = 0.0, resume: bool = False
) -> subprocess.Popen:
    """`cplsr train`, slowed down so that it can be hit, and saving after every episode."""
    words = ["--backbone", str(checkpoint), "--base", str(folder), "--out", str(out), *COMMAND, *more]
    code = (
        "import sys, time\nfrom cplsr.training import loop, run\nrun.SAVE_SECONDS = 0.0\n"
        "real = loop.Run._episodes\n"
        f"def slow(self, *a):\n    time.sleep({slow})\n    return real(self, *a)\n"
        "loop.Run._episodes = slow\nfrom cplsr.cli import main\nsys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "train", *words, *(["--resume"] if resume else [])]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ})


def episodes_done(out: Path) -> int:
    try:
        lines = (out / "metrics.jsonl").read_text().splitlines()
        return max((json.loads(line)["episode"] for line in lines if line.endswith("}")), default=-1)
    except (FileNotFoundError, ValueError):
        return -1


def kill_at(process: subprocess.Popen, out: Path, episode: int, delay: float) -> None:
    while episodes_done(out) < episode and process.poll() is None:
        time.sleep(0.01)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def finish(folder: Path, out: Path, checkpoint: Path, *more: str, resume: bool) -> None:
    process = start(folder, out, checkpoint, *more, resume=resume)
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()


def check_same(a: Path, b: Path) -> None:
    for part in ("adapter", "last"):
        assert (a / part / "adapter.safetensors").read_bytes() == (b / part / "adapter.safetensors").read_bytes()
    figures = []
    for run in (a, b):
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        figures.append([{k: v for k, v in line.items() if k != "images_per_second"} for line in lines])
    assert figures[0] == figures[1]


@pytest.mark.parametrize("more", [[], OTHERWISE], ids=["usual", "otherwise"])
def test_killed_runs_end_with_the_same_bits(tiny_folder: Path, checkpoint_file: Path, tmp_path: Path, more: list[str]):
    finish(tiny_folder, tmp_path / "undisturbed", checkpoint_file, *more, resume=False)
    out = tmp_path / "killed"
    for episode, delay in ((0, 0.0), (4, 0.03)):
        kill_at(start(tiny_folder, out, checkpoint_file, *more, slow=0.15, resume=out.exists()), out, episode, delay)
        assert not json.loads((out / "run.json").read_text())["finished"]
    finish(tiny_folder, out, checkpoint_file, *more, resume=True)
    check_same(tmp_path / "undisturbed", out)


@pytest.mark.soak
def test_kills_at_random_moments(tiny_folder: Path, checkpoint_file: Path, tmp_path: Path):
    import random

    finish(tiny_folder, tmp_path / "undisturbed", checkpoint_file, resume=False)
    for attempt in range(10):
        out = tmp_path / f"killed{attempt}"
        for _ in range(4):
            process = start(tiny_folder, out, checkpoint_file, slow=0.1, resume=True)
            time.sleep(random.uniform(0.1, 12))
            process.send_signal(signal.SIGKILL)
            process.communicate()
        finish(tiny_folder, out, checkpoint_file, resume=True)
        check_same(tmp_path / "undisturbed", out)
