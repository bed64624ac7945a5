"""Two processes do what one does with twice the episodes per step; unconnected ones are refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from cplsr.errors import InputError
from cplsr.processes import Processes

COMMAND = [
    *("--way", "2", "--shot", "2", "--query", "2", "--episodes", "6", "--lr", "1e-3", "--validation-episodes", "8"),
    *("--candidates", "10", "--pseudo-episodes", "3", "--validate-every", "2", "--shrinkage", "ledoit_wolf"),
    *("--threads", "1", "--workers", "0", "--heads", "2"),
]


def run(launcher: list[str], checkpoint: Path, base: Path, out: Path, cache: Path, *more: str) -> None:
    words = ["train", "--backbone", str(checkpoint), "--base", str(base), "--out", str(out), *COMMAND, *more]
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1", "CPLSR_CACHE": str(cache)}
    result = subprocess.run([*launcher, *words], capture_output=True, text=True, env=environment, check=False)
    assert result.returncode == 0, result.stderr[-3000:]


def test_two_processes_give_the_adapter_of_one(checkpoint_file: Path, tiny_folder: Path, tmp_path: Path):
    """Each has a cache of its own kind, so that statistics, images and validation are sharded too."""
    alone = [sys.executable, "-m", "cplsr"]
    both = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m", "cplsr"]
    run(alone, checkpoint_file, tiny_folder, tmp_path / "one", tmp_path / "cache1", "--episodes-per-step", "2")
    run(both, checkpoint_file, tiny_folder, tmp_path / "two", tmp_path / "cache2")
    one, two = (load_file(tmp_path / name / "last" / "adapter.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        assert (tensor - torch.eye(32)).abs().max() > 1e-3
        assert (tensor - two[name]).abs().max() <= 1e-6
    assert (tmp_path / "two" / "metrics.jsonl").read_text().count("validation_ci95") == 4


def test_unconnected_processes_are_refused(monkeypatch: pytest.MonkeyPatch):
    class Alone:
        def __init__(self, cpu: bool) -> None:
            self.num_processes, self.process_index = 1, 0

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr("accelerate.Accelerator", Alone)
    with pytest.raises(InputError, match="announced 2 processes, but 1 found"):
        Processes.find(torch.device("cpu"))


def test_alone_nothing_is_exchanged():
    processes = Processes()
    tensor = torch.ones(3)
    processes.average_([tensor])
    processes.wait()
    assert processes.gather("x") == ["x"]
    assert processes.share(range(5)) == [0, 1, 2, 3, 4]
    assert Processes(1, 2).share(range(5)) == [1, 3]
    assert torch.equal(tensor, torch.ones(3))
