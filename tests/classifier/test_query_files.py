"""Unlabeled images on disk."""

import os

import pytest
from PIL import Image

from cplsr.classifier.query_files import open_queries
from cplsr.errors import InputError


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
