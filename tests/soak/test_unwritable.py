"""A full disk, a read-only folder, no permission: one sentence, exit code 2, nothing half-written, and on it goes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from soak.kills import outcome_of_ablation, outcome_of_json, outcome_of_run
from soak.world import World

from cplsr.cli import main

OUT = {
    "train": "run", "evaluate": "results.json", "classify": "predictions.csv", "ablate": "ablation",
    "analyze": "analysis", "report": "report.html", "export": "vit.safetensors",
}  # fmt: skip


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 kB, where such a one may be made."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no file system may be mounted here")
    yield place
    subprocess.run(["umount", place], check=True)


def remount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", place], check=True)


def check_sentence(text: str, place: Path) -> None:
    """One sentence that names the place and the reason comes last; notes may come before it."""
    last = text.strip().splitlines()[-1]
    assert last.startswith(f"cplsr: {place}")
    assert "cannot be written (" in last
    assert "Traceback" not in text


def begun(words: list[str]) -> list[str]:
    """The command that goes on with what the same one began."""
    return [*words, "--resume"] if words[0] == "train" else words


@pytest.mark.parametrize("verb", ["train", "classify", "ablate", "export", "analyze"])
def test_a_full_disk_is_a_sentence_and_with_room_the_same_command_goes_on(
    world: World, small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    (small_disk / "ballast").write_bytes(bytes((12 if verb == "classify" else 4) << 10))
    more = {"analyze": ("--attention", "3")}.get(verb, ())
    words = getattr(world, verb)(small_disk / OUT[verb], *more)

    assert main(words) == 2

    check_sentence(capsys.readouterr().err, small_disk)
    assert list(small_disk.rglob(".*")) == []
    if verb in ("export", "analyze"):
        assert [path.name for path in small_disk.iterdir()] == ["ballast"]
    remount(small_disk, "size=8m")
    assert main(begun(words)) == 0
    assert main(getattr(world, verb)(tmp_path / OUT[verb], *more)) == 0
    same = {"train": outcome_of_run, "classify": Path.read_bytes, "ablate": outcome_of_ablation}.get(verb, Path.exists)
    assert same(small_disk / OUT[verb]) == same(tmp_path / OUT[verb])


@pytest.mark.parametrize("verb", OUT)
def test_a_read_only_disk_is_a_sentence(
    world: World, small_disk: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    remount(small_disk, "ro")
    assert main(getattr(world, verb)(small_disk / "deep" / OUT[verb])) == 2
    check_sentence(capsys.readouterr().err, small_disk / "deep")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize("verb", OUT)
def test_where_nothing_can_be_mounted_a_writer_fails_instead(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str,
    number: int,
) -> None:  # fmt: skip
    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("cplsr.files.os.fsync", fail)
    place = tmp_path / "deep"
    assert main(getattr(world, verb)(place / OUT[verb])) == 2
    check_sentence(capsys.readouterr().err, place)
    assert [path for path in place.rglob("*") if path.is_file() and path.name != "predictions.csv.partial"] == []


@pytest.mark.parametrize("verb", OUT)
def test_a_file_where_a_folder_is_wanted_is_a_sentence(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    (tmp_path / "file").write_text("mine")
    assert main(getattr(world, verb)(tmp_path / "file" / OUT[verb])) == 2
    assert capsys.readouterr().err.strip().splitlines()[-1].startswith("cplsr: ")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(("verb", "outcome"), [("train", outcome_of_run), ("evaluate", outcome_of_json)])
def test_a_cache_that_cannot_be_written_is_one_note_and_does_not_stop_the_work(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str,
    outcome: object,
) -> None:  # fmt: skip
    place = Path(OUT[verb])
    monkeypatch.chdir(tmp_path)
    assert main(getattr(world, verb)(place)) == 0
    (tmp_path / "file").touch()
    monkeypatch.setenv("CPLSR_CACHE", str(tmp_path / "file" / "cache"))
    (tmp_path / "again").mkdir()
    monkeypatch.chdir(tmp_path / "again")
    capsys.readouterr()

    assert main(getattr(world, verb)(place)) == 0

    notes = [line for line in capsys.readouterr().err.splitlines() if "could not be kept" in line]
    assert len(notes) == len(set(notes)) == {"train": 3, "evaluate": 2}[verb]
    assert outcome(tmp_path / "again" / place) == outcome(tmp_path / place)  # type: ignore[operator]


def test_output_that_nobody_can_take_is_a_sentence() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "cplsr", "--help"], stdout=full, stderr=-1, text=True, check=False
        )
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False)
    assert ended.stderr.startswith("cplsr: the output cannot be used")
