"""Unlabeled images on disk."""

import io
import os
import pickle
import tarfile

import pytest
from PIL import Image

from cplsr.data.query_files import open_queries, unlabeled_parts
from cplsr.errors import InputError


@pytest.fixture
def query(tmp_path):
    """Eleven images at two depths, two of which are no images, and what is none."""
    root = tmp_path / "query"
    (root / "deeper").mkdir(parents=True)
    for number in range(9):
        Image.new("RGB", (24, 20), (20 * number, 0, 0)).save(root / ("deeper" if number % 2 else "") / f"{number}.png")
    (root / "bad.jpg").write_bytes(b"not an image")
    (root / "deeper" / "empty.png").touch()
    (root / "notes.txt").write_text("not listed")
    (root / ".hidden.png").write_bytes(b"not listed")
    return root


def names(domain):
    return [domain.image_name(index) for index in range(len(domain))]


def test_a_folder_at_any_depth_in_order_of_path(query):
    found = names(open_queries(query))

    assert found == sorted(found)
    assert len(found) == 11
    assert str(query / "deeper" / "1.png") in found
    assert not any("notes" in name or "hidden" in name for name in found)


def test_one_image_and_a_table(query, tmp_path):
    assert names(open_queries(str(query / "0.png"))) == [str(query / "0.png")]
    (tmp_path / "list.csv").write_text("id,Path\n7,query/2.png\n8,query/gone.png\n\n9,query/0.png\n")

    listed = open_queries(tmp_path / "list.csv")

    assert names(listed) == ["query/2.png", "query/gone.png", "query/0.png"]
    assert listed.reader(0).size == Image.open(query / "2.png").size
    with pytest.raises(InputError, match="no such file"):
        listed.reader(1)


def test_the_fingerprint_knows_a_changed_image(query):
    before = open_queries(query).fingerprint
    assert open_queries(query).fingerprint == before

    os.utime(query / "0.png", ns=(1, 123456789))
    assert open_queries(query).fingerprint == before  # what counts is the content

    content = bytearray((query / "0.png").read_bytes())
    content[-1] ^= 1
    (query / "0.png").write_bytes(content)
    assert open_queries(query).fingerprint != before


@pytest.mark.parametrize(
    ("content", "message"),
    [("a,b\n1,2\n", "needs one called path"), ("path\n", "lists no images"), ("path,x\n,1\n", "line 2 has no path"),
     (b"path\n\xff\xfe\n", "not a table in UTF-8")],
)  # fmt: skip
def test_bad_tables(tmp_path, content, message):
    (tmp_path / "list.csv").write_bytes(content if isinstance(content, bytes) else content.encode())

    with pytest.raises(InputError, match=message):
        open_queries(tmp_path / "list.csv")


def test_bad_places(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").touch()
    for place, message in (("gone", "does not exist"), ("empty", "no image in"), ("notes.txt", "not the name")):
        with pytest.raises(InputError, match=message):
            open_queries(tmp_path / place)


def red(domain):
    return [domain.reader(index).getpixel((0, 0))[0] for index in range(len(domain))]


def test_parts_are_listed_in_the_same_order_and_hashed_where_they_are_opened(query):
    (query / "deeper-too").mkdir()  # in order of path before what is in deeper/
    (query / "deeper-too" / "a.png").write_bytes((query / "0.png").read_bytes())
    (query / "deeper.png").write_bytes((query / "0.png").read_bytes())
    parts = unlabeled_parts(query)
    assert (parts.images, parts.classes, parts.skipped) == (13, ("",), [])
    opened = [pickle.loads(pickle.dumps(part))() for part in parts.parts(5)]
    assert [len(part) for part in opened] == [5, 5, 3]
    whole = open_queries(query)
    assert [identity for part in opened for identity in part.identities] == list(whole.identities)
    assert names(whole) == sorted(names(whole))
    assert tuple(parts.skipped) == whole.skipped == ((str(query / "notes.txt"), "not the name of an image file"),)


def test_tar_files_without_labels(query):
    folder = query.parent / "tars"
    folder.mkdir()
    for number in (0, 2):
        with tarfile.open(folder / f"{number}.tar", "w") as tar:
            for name in (f"{number}.png", "notes.txt", f"{number}.cls"):
                content = (query / f"{number}.png").read_bytes() if name.endswith("png") else b"x"
                (info := tarfile.TarInfo(name)).size = len(content)
                tar.addfile(info, io.BytesIO(content))
    for source, numbers in ((folder, [0, 2]), (folder / "2.tar", [2])):
        domain = open_queries(source)
        assert (domain.classes, red(domain)) == (("",), [20 * number for number in numbers])
        assert names(domain) == [f"{number}.tar/{number}.png" for number in numbers]
    (query / "more.tar").write_bytes((folder / "2.tar").read_bytes())
    assert len(open_queries(query)) == 11  # where there are images, these are meant
    (folder / "2.tar").unlink()
    with tarfile.open(folder / "0.tar", "w"):
        pass
    with pytest.raises(InputError, match="holds no image: give tar files"):
        open_queries(folder)


def test_parquet_files_without_labels(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    images = [Image.new("RGB", (4, 4), (10 * number, 0, 0)) for number in range(5)]
    features = datasets.Features({"image": datasets.Image()})
    (tmp_path / "farm").mkdir()
    datasets.Dataset.from_dict({"image": images}, features=features).to_parquet(tmp_path / "farm" / "part.parquet")
    domain = open_queries(tmp_path / "farm")
    assert (domain.classes, red(domain)) == (("",), [0, 10, 20, 30, 40])
    assert [len(part()) for part in unlabeled_parts(tmp_path / "farm").parts(3)] == [3, 2]


def test_a_folder_that_cannot_be_read_is_passed_over(query, monkeypatch):
    listed, locked = os.scandir, str(query / "deeper")

    def scandir(folder):
        if str(folder) == locked:
            raise PermissionError(13, "Permission denied", locked)
        return listed(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    assert (locked, "a folder that cannot be read") in open_queries(query).skipped
