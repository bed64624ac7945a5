"""Files are told apart by what is in them, and are read only once for that."""

import os
import shutil
from pathlib import Path

import pytest

from cplsr.data import identity
from cplsr.data.folder import open_folder
from cplsr.data.identity import look_at_files
from cplsr.data.listing import open_listing
from cplsr.environment import cache_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("cow/a.png", "cow/b.png", "ant/c.png"):
        path = tmp_path / "farm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * 100)
    return tmp_path / "farm"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were read; every hash is kept, however fresh its file is."""
    names: list[str] = []
    real = identity._read_hash
    monkeypatch.setattr(identity, "_read_hash", lambda file: names.append(file.path) or real(file))
    monkeypatch.setattr(identity, "FRESH_SECONDS", -1.0)
    return names


def one(path: Path) -> str:
    (file,) = look_at_files(str(path.parent), [path.name])
    assert file.problem is None
    return file.identity


def test_a_copy_with_other_times_has_the_same_fingerprint(folder: Path) -> None:
    before = open_folder(folder)
    copied = folder.with_name("copied")
    shutil.copytree(folder, copied, copy_function=shutil.copyfile)
    for file in copied.rglob("*.png"):
        os.utime(file, ns=(1, 1))
    assert open_folder(copied).fingerprint == before.fingerprint
    assert open_folder(copied).identities == before.identities


@pytest.mark.parametrize("place", [0, 5_000_000, 9_999_999])
def test_one_changed_byte_is_another_file_wherever_it_is(place: int, tmp_path: Path) -> None:
    content = bytearray(10_000_000)
    (tmp_path / "a.bmp").write_bytes(content)
    before = one(tmp_path / "a.bmp")
    content[place] ^= 1
    (tmp_path / "a.bmp").write_bytes(content)
    assert one(tmp_path / "a.bmp") != before


def test_what_was_read_once_is_not_read_again(folder: Path, read: list[str]) -> None:
    before = open_folder(folder).identities
    assert sorted(read) == ["ant/c.png", "cow/a.png", "cow/b.png"]
    assert open_folder(folder).identities == before
    (folder / "table.csv").write_text("path,label\ncow/a.png,x\nant/c.png,y\n")
    assert len(open_listing(folder / "table.csv")) == 2
    assert len(read) == 3
    (folder / "cow" / "d.png").write_bytes(b"new")
    (folder / "cow" / "a.png").write_bytes(b"changed")
    after = open_folder(folder).identities
    assert sorted(read[3:]) == ["cow/a.png", "cow/d.png"]
    assert len(set(before) & set(after)) == 2


def test_a_change_that_keeps_size_and_modification_time_is_noticed(folder: Path, read: list[str]) -> None:
    """The time of the last change of the inode cannot be set back by a program."""
    file = folder / "cow" / "a.png"
    before, status = one(file), file.stat()
    while file.stat().st_ctime_ns == status.st_ctime_ns:  # clocks of file systems tick every few milliseconds
        file.write_bytes(bytes(reversed(file.read_bytes())))
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    file.write_bytes(b"x" * status.st_size)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert one(file) != before
    other = file.with_name("other.png")  # another file moved into its place
    other.write_bytes(b"y" * status.st_size)
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    now = one(file)
    other.replace(file)
    assert one(file) != now


def test_files_changed_a_moment_ago_are_read_again(folder: Path, read: list[str], monkeypatch) -> None:
    """Two changes within one tick of the clock leave the same times behind."""
    monkeypatch.setattr(identity, "FRESH_SECONDS", 60.0)
    one(folder / "cow" / "a.png")
    one(folder / "cow" / "a.png")
    assert len(read) == 2


def test_a_damaged_store_is_made_again(folder: Path, read: list[str]) -> None:
    before = open_folder(folder).identities
    stores = sorted((cache_folder() / "hashes").iterdir())
    assert len(stores) == 2
    for store in stores:
        whole = store.read_bytes()
        for place in range(0, len(whole), 7):
            store.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            assert open_folder(folder).identities == before
            assert store.read_bytes() == whole or place >= len(whole) - 1


def test_a_store_that_cannot_be_written_is_done_without(folder: Path, read: list[str]) -> None:
    cache_folder().parent.mkdir(parents=True, exist_ok=True)
    cache_folder().write_text("a file where the folder should be")
    assert open_folder(folder).identities == open_folder(folder).identities
    assert len(read) == 6


def test_only_regular_files_are_taken(folder: Path) -> None:
    os.mkfifo(folder / "cow" / "pipe.png")
    (folder / "cow" / "device.png").symlink_to("/dev/zero")
    (folder / "table.csv").write_text("path,label\ncow/a.png,x\ncow/pipe.png,x\ncow,x\n")
    reasons = {"cow/pipe.png": "not a regular file", "cow/device.png": "not a regular file"}
    assert dict(open_folder(folder).skipped) == reasons
    listed = {"cow/pipe.png": "not a regular file", "cow": "not a regular file"}
    assert dict(open_listing(folder / "table.csv").skipped) == listed
