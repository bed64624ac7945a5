"""The folder of a run: damaged states are noticed, the one before is used, and there is one writer."""

import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from oracles.report_inputs import BACKBONE

from cplsr.errors import InputError
from cplsr.files import only_writer
from cplsr.records.run import TrainingRun
from cplsr.training.run_folder import METRICS, PREVIOUS, STATE, RunFolder, RunState

NEW = TrainingRun(settings={}, adapter={"kind": "full"}, backbone=BACKBONE, data={}, versions={})


def state(episode: int) -> RunState:
    values = torch.arange(4.0) * episode
    rows = [{"episode": number, "validation": 50.0 + number / 3} for number in range(episode + 1)]
    return RunState(
        episode=episode,
        adapter={"a.b": values, "c": values.double().reshape(2, 2)},
        optimizer={"0/step": torch.tensor(float(episode)), "0/exp_avg": values + 1},
        best_episode=1,
        best_accuracy=1 / 3,
        best_adapter={"a.b": values - 1, "c": torch.ones(2, 2)},
        seconds=0.1 * episode,
        objective={"counts": torch.tensor([1, 2])},
        metrics=rows,
    )


def told(found: RunState) -> str:
    """Everything in a state, as text."""
    parts = {
        name: {key: (str(part.dtype), part.tolist()) for key, part in value.items()}
        if isinstance(value, dict)
        else value
        for name, value in vars(found).items()
    }
    return json.dumps(parts, sort_keys=True)


def saved(path: Path, *episodes: int) -> RunFolder:
    folder = RunFolder(path)
    for episode in episodes:
        folder.save_state(state(episode))
    return folder


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ (1 << place % 8)]) + content[place + 1 :]


def test_a_state_comes_back_with_its_metrics(tmp_path: Path):
    folder = saved(tmp_path, 1, 2, 3)
    (tmp_path / METRICS).write_text('{"episode": 9}\ngarbage')
    found = folder.load_state()
    assert told(found) == told(state(3))
    assert [json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()] == state(3).metrics
    (tmp_path / METRICS).unlink()
    folder.load_state()
    assert [json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()] == state(3).metrics


def test_wherever_a_state_is_damaged_the_one_before_is_used(tmp_path: Path, caplog):
    folder = saved(tmp_path, 1, 2)
    newest, previous = (tmp_path / STATE).read_bytes(), (tmp_path / PREVIOUS).read_bytes()
    copies = [flipped(newest, place) for place in range(0, len(newest), 3)]
    copies += [newest[:size] for size in (0, 7, 100, len(newest) - 1)] + [newest + b"x"]
    wanted, same = told(state(1)), 0
    for copy in copies:
        (tmp_path / STATE).write_bytes(copy)
        (tmp_path / PREVIOUS).write_bytes(previous)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            found = told(folder.load_state())
        if caplog.text:
            assert "is damaged: continuing from the state before it" in caplog.text
            assert not (tmp_path / STATE).exists()
            assert found == wanted
        else:  # a space at the end of the header, of no meaning
            same += 1
            assert found == told(state(2))
    assert same <= 1


def test_a_state_that_replaces_a_damaged_one_does_not_push_the_good_one_out(tmp_path: Path):
    folder = saved(tmp_path, 1, 2)
    (tmp_path / STATE).write_bytes(b"damaged")
    folder.load_state()
    folder.save_state(state(5))
    (tmp_path / STATE).write_bytes(b"damaged again")
    assert folder.load_state().episode == 1


def test_a_run_that_was_killed_between_two_states_has_the_one_before(tmp_path: Path):
    folder = saved(tmp_path, 1, 2)
    (tmp_path / STATE).unlink()
    assert folder.load_state().episode == 1


def test_where_both_are_damaged_it_says_what_to_do(tmp_path: Path):
    folder = saved(tmp_path, 1, 2)
    for name in (STATE, PREVIOUS):
        (tmp_path / name).write_bytes(flipped((tmp_path / name).read_bytes(), 500))
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(InputError, match=re.escape(f"remove {STATE} and {PREVIOUS} to begin again")):
        folder.load_state()
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    for name in (STATE, PREVIOUS):
        (tmp_path / name).unlink()
    assert folder.load_state() is None


def test_a_state_of_an_earlier_version_gets_a_sentence(tmp_path: Path):
    torch.save({"episode": 3}, tmp_path / "state.pt")
    with pytest.raises(InputError, match="earlier version and has no checksum: remove it to begin again"):
        RunFolder(tmp_path).load_state()


HOLDER = """
import sys, time
from pathlib import Path
from cplsr.files import only_writer
with only_writer(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_folder_has_one_writer_until_that_is_killed(tmp_path: Path):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="is being written by another process"), only_writer(tmp_path / "run"):
            raise AssertionError
    finally:
        holder.kill()
        holder.communicate()
    with only_writer(tmp_path / "run"):
        RunFolder(tmp_path / "run").begin(NEW, resume=False)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.json"]


def test_what_killed_processes_left_half_written_goes_when_the_run_is_finished(tmp_path: Path):
    folder = RunFolder(tmp_path / "run")
    folder.begin(NEW, resume=False)
    (tmp_path / "run" / ".metrics.jsonl.1-a.partial").write_text("")
    (tmp_path / "run" / ".last.1-a.partial").mkdir()
    (tmp_path / "run" / ".last.1-a.partial" / "adapter.json").write_text("{}")
    results = {"start_accuracy": 1.0, "last_accuracy": 1.0, "best_accuracy": 1.0, "best_episode": 0, "seconds": 1.0}
    folder.finish(**results)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run.json"]


def test_two_in_one_process_and_a_place_that_cannot_be_written(tmp_path: Path):
    both = only_writer(tmp_path), only_writer(tmp_path, "a.csv")
    with both[0], both[1], pytest.raises(InputError, match=r"a\.csv is being written"), only_writer(tmp_path, "a.csv"):
        raise AssertionError
    with only_writer(tmp_path / "new"):
        pass
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be written"), only_writer(tmp_path / "file"):
        raise AssertionError
