"""Files and folders appear whole or not at all."""

import json
from contextlib import suppress
from pathlib import Path

import pytest

from cplsr.files import access_like_folder, new_file, new_folder, write_json


class Interrupted(Exception):  # noqa: N818
    """What happens in the middle of writing."""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_the_block_ends(tmp_path: Path):
    with new_file(tmp_path / "deep" / "a.txt") as stream:
        stream.write("one\n")
        assert not (tmp_path / "deep" / "a.txt").exists()
    assert (tmp_path / "deep" / "a.txt").read_text() == "one\n"
    assert names(tmp_path / "deep") == ["a.txt"]


def test_a_failed_file_leaves_the_old_one_and_nothing_else(tmp_path: Path):
    (tmp_path / "a.txt").write_text("old")
    with suppress(Interrupted), new_file(tmp_path / "a.txt") as stream:
        stream.write("new")
        raise Interrupted
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_folder_replaces_the_old_one_as_a_whole(tmp_path: Path):
    for content in ("one", "two"):
        with new_folder(tmp_path / "f") as folder:
            (folder / content).touch()
    assert names(tmp_path / "f") == ["two"]
    assert names(tmp_path) == ["f"]


def test_a_failed_folder_leaves_the_old_one_and_nothing_else(tmp_path: Path):
    with new_folder(tmp_path / "f") as folder:
        (folder / "one").touch()
    with suppress(Interrupted), new_folder(tmp_path / "f") as folder:
        (folder / "two").touch()
        raise Interrupted
    assert names(tmp_path / "f") == ["one"]
    assert names(tmp_path) == ["f"]


def test_json_is_readable_and_refuses_nan(tmp_path: Path):
    write_json(tmp_path / "a.json", {"ä": [1, 2.5]})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {"ä": [1, 2.5]}
    with pytest.raises(ValueError, match="Out of range"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert names(tmp_path) == ["a.json"]


def test_a_file_gets_the_access_of_its_folder(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    file.chmod(0o600)
    tmp_path.chmod(0o750)
    access_like_folder(file)
    assert file.stat().st_mode & 0o777 == 0o640
