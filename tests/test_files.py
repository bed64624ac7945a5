"""Files and folders appear whole or not at all."""

import errno
import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError

from cplsr.files import (
    UnwritableError,
    access_like_folder,
    check_writable,
    csv_cell,
    new_file,
    new_folder,
    read_sealed,
    text_of_csv_cell,
    write_json,
    write_sealed,
)


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


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
RUST = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize("error", [FULL, RUST], ids=["python", "safetensors"])
@pytest.mark.parametrize("new", [new_file, new_folder])
def test_a_full_disk_is_a_sentence_and_leaves_the_old_one(tmp_path: Path, new, error):
    place = tmp_path / "a"
    with new(place):
        pass
    with pytest.raises(UnwritableError, match=r"a cannot be written \(No space left on device\): free"), new(place):
        raise error
    assert names(tmp_path) == ["a"]


def test_within_a_folder_the_place_of_the_folder_is_named(tmp_path: Path):
    place = tmp_path / "f"
    told = pytest.raises(UnwritableError, match=f"^{place} cannot be written")
    with told, new_folder(place) as folder, new_file(folder / "one.json"):
        raise FULL


@pytest.mark.parametrize(
    ("place", "advice"), [("file/a", "a file stands where"), ("x" * 300, "shorter name"), (".", "a folder stands")]
)
def test_each_reason_comes_with_what_to_do(tmp_path: Path, place, advice):
    (tmp_path / "file").touch()
    with pytest.raises(UnwritableError, match=advice), new_file(tmp_path / place):
        pass
    assert names(tmp_path) == ["file"]


def test_what_is_wrong_with_another_file_is_not_said_of_this_one(tmp_path: Path):
    with pytest.raises(FileNotFoundError), new_file(tmp_path / "a"):
        (tmp_path / "gone").read_bytes()
    with pytest.raises(KeyError), new_file(tmp_path / "a"):
        raise KeyError("x")


def test_a_place_is_refused_before_the_work_and_nothing_is_made(tmp_path: Path, monkeypatch):
    check_writable(tmp_path / "new" / "a")
    (tmp_path / "file").touch()
    with pytest.raises(UnwritableError, match="a file stands"):
        check_writable(tmp_path / "file" / "new" / "a")
    monkeypatch.setattr(os, "access", lambda place, mode: False)
    with pytest.raises(UnwritableError, match="Permission denied"):
        check_writable(tmp_path / "new" / "a")
    monkeypatch.delattr(os, "statvfs")  # Windows has none
    with pytest.raises(UnwritableError, match="Permission denied"):
        check_writable(tmp_path / "new" / "a")
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("text", ["=1+1", "+a", "-a", "@SUM(A1)", "\t=1", "\rx", "'=1", "--1", "-1+2"])
def test_what_begins_like_a_formula_gets_an_apostrophe(text):
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "red", "0.5", "-1", "+2.5e-3", "a=1", "'tis", "−1.25 ±2.45"])
def test_other_texts_and_numbers_stay_as_they_are(text):
    assert csv_cell(text) == text


@given(st.text("'=+-@\t\r\n1.e a", max_size=6))
def test_every_text_comes_back_from_its_cell(text):
    assert text_of_csv_cell(csv_cell(text)) == text
    assert csv_cell(text)[:1] not in set("=@\t\r\n")


@pytest.mark.parametrize("content", ["[" * 100_000, "{", '{"sha256": "0", "content": [1, 2]}', "[]", "\ud800"])
def test_what_is_not_sealed_as_it_was_written_is_noticed(tmp_path, content):
    path = tmp_path / "sealed.json"
    write_sealed(path, [1, 2, "ä"])
    assert read_sealed(path) == [1, 2, "ä"]
    path.write_text(content, encoding="utf-8", errors="surrogatepass")
    with pytest.raises(ValueError):  # noqa: PT011 (of whatever kind: the caller makes the file again)
        read_sealed(path)
