"""Tables of path,label."""

from pathlib import Path

import pytest
from PIL import Image

from cplsr.data.listing import open_listing
from cplsr.errors import InputError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(["a.png", "sub dir/b.png", "c ü.png"]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("L", (2, 2), number).save(tmp_path / name)
    return tmp_path


def write(folder: Path, text: str, name: str = "farm.csv", encoding: str = "utf-8") -> Path:
    (folder / name).write_text(text, encoding=encoding)
    return folder / name


def test_paths_are_relative_to_the_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write(folder, "path,label\na.png,cow\nsub dir/b.png,ant\nc ü.png,cow\n")
    monkeypatch.chdir("/")
    domain = open_listing(table)
    assert domain.name == "farm"
    assert domain.classes == ("ant", "cow")
    assert domain.labels.tolist() == [1, 0, 1]
    assert [domain.reader(index).getpixel((0, 0)) for index in range(3)] == [0, 1, 2]
    assert domain.image_name(1) == "sub dir/b.png"
    assert domain.groups is None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_groups_other_column_names_order_and_quotes(folder: Path, encoding: str) -> None:
    text = 'Label,Patient,Filename,more\n"cow, brown",p1,a.png,\n"cow, brown",p2,sub dir/b.png,x\n\n'
    domain = open_listing(write(folder, text, encoding=encoding))
    assert domain.classes == ("cow, brown",)
    assert domain.groups is not None
    assert domain.groups.tolist() == ["p1", "p2"]


def test_tab_separated_and_absolute_paths(folder: Path) -> None:
    domain = open_listing(write(folder, f"path\tlabel\n{folder}/a.png\tcow\n", "farm.tsv"))
    assert domain.reader(0).size == (2, 2)


def test_missing_and_empty_files_are_skipped_or_an_error(folder: Path) -> None:
    (folder / "empty.png").touch()
    table = write(folder, "path,label\na.png,cow\nabsent.png,cow\nempty.png,ant\n")
    domain = open_listing(table)
    assert len(domain) == 1
    assert dict(domain.skipped) == {"absent.png": "No such file or directory", "empty.png": "0 bytes"}
    with pytest.raises(InputError, match="2 files that cannot be used"):
        open_listing(table, strict=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has the columns nothing, but needs one called path"),
        ("path,kind\na.png,cow\n", "needs one called label"),
        ("path,label\n", "lists no images"),
        ("path,label\na.png\n", "line 2: 1 cells"),
        ("path,label\na.png,\n", "line 2"),
        ("path,label\nx.png,cow\n", r"none of the images .* can be found under .*x\.png"),
    ],
)
def test_bad_tables_are_errors_that_say_where(folder: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_listing(write(folder, text))


def test_a_table_in_another_encoding_is_an_error(folder: Path) -> None:
    with pytest.raises(InputError, match="not a table in UTF-8"):
        open_listing(write(folder, "path,label\nc ü.png,Kühe\n", encoding="latin-1"))
