"""A short form of what `make soak` does at length, with fixed seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def soak(tmp_path: Path, **numbers: int) -> str:
    """`python -m soak`, told to leave out whatever is not named."""
    amounts = {"kills": 0, "damaged": 0, "page_seconds": 0} | numbers
    words = [word for name, value in amounts.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [sys.executable, "-m", "soak", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"},
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return ended.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kills_damaged_inputs_and_load_on_the_page(tmp_path: Path) -> None:
    page_seconds = 3 if find_spec("gradio") else 0  # one world for all: making it is half of the work
    told = soak(tmp_path, kills=4, damaged=120, page_seconds=page_seconds)
    assert told.count("1 kills") == 4
    assert told.count("12 damaged") == 10
    assert "visits in 3 s" in told or not page_seconds
