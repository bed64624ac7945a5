"""Folders of images as people really have them."""

import os
from pathlib import Path

import pytest
from oracles.patience import not_for_ever
from PIL import Image

from cplsr.data.folder import open_folder
from cplsr.data.listing import open_listing
from cplsr.errors import InputError


def paint(path: Path, color: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (4, 4), color).save(path)
    return path


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    for number, name in enumerate(["cow/b.png", "cow/a.png", "ant/z.png"]):
        paint(tmp_path / "farm" / name, number)
    return tmp_path / "farm"


def test_classes_and_images_are_in_order_of_name(farm: Path) -> None:
    domain = open_folder(farm)
    assert domain.name == "farm"
    assert domain.classes == ("ant", "cow")
    assert domain.labels.tolist() == [0, 1, 1]
    assert [domain.image_name(index) for index in range(3)] == ["ant/z.png", "cow/a.png", "cow/b.png"]
    assert [domain.reader(index).getpixel((0, 0)) for index in range(3)] == [2, 1, 0]
    assert domain.skipped == ()


def test_a_moved_folder_keeps_its_fingerprint_and_a_changed_image_does_not(farm: Path) -> None:
    before = open_folder(farm).fingerprint
    moved = farm.rename(farm.with_name("elsewhere"))
    assert open_folder(moved).fingerprint == before
    paint(moved / "cow/a.png", 99)
    assert open_folder(moved).fingerprint != before


def test_names_with_spaces_and_unicode(tmp_path: Path) -> None:
    paint(tmp_path / "große Kühe 牛" / "a b ü 🐄.PNG")
    domain = open_folder(tmp_path)
    assert domain.classes == ("große Kühe 牛",)
    assert domain.reader(0).size == (4, 4)
    assert domain.fingerprint


def test_names_that_are_no_text(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    paint(tmp_path / "x.png").rename(folder / os.fsdecode(b"\xff.png"))
    domain = open_folder(tmp_path)
    assert domain.reader(0).size == (4, 4)
    assert domain.fingerprint


def test_hidden_and_system_files_are_ignored_and_others_skipped_by_name(farm: Path) -> None:
    for name in (".DS_Store", "cow/.hidden.png", "cow/Thumbs.db", "cow/notes.txt", "readme.md"):
        (farm / name).write_text("x")
    (farm / "cow/empty.jpg").touch()
    (farm / ".git").mkdir()
    paint(farm / "loose.png")
    domain = open_folder(farm)
    assert len(domain) == 3
    assert dict(domain.skipped) == {
        "loose.png": "an image outside of the class folders",
        "cow/notes.txt": "not the name of an image file",
        "cow/empty.jpg": "0 bytes",
    }
    with pytest.raises(InputError, match=r"3 files that cannot be used .*loose\.png.*--strict"):
        open_folder(farm, strict=True)


def test_a_class_without_images_is_no_class(farm: Path) -> None:
    (farm / "bee").mkdir()
    domain = open_folder(farm)
    assert domain.classes == ("ant", "cow")
    assert domain.skipped == (("bee", "a class folder without images"),)


def test_only_the_given_classes_are_opened(farm: Path) -> None:
    assert open_folder(farm, classes=["cow", "dog"]).classes == ("cow",)


def test_links_to_images_and_folders_work_and_loops_are_skipped(farm: Path, tmp_path: Path) -> None:
    outside = paint(tmp_path / "outside" / "linked.png").parent
    (farm / "bee").symlink_to(outside)
    (farm / "loop").symlink_to(farm)
    (farm / "up").symlink_to(tmp_path)
    (farm / "self").symlink_to(farm / "self")
    (farm / "cow" / "link.png").symlink_to(outside / "linked.png")
    (farm / "cow" / "self.png").symlink_to(farm / "cow" / "self.png")
    (farm / "cow" / "broken.png").symlink_to(farm / "nowhere.png")
    domain = open_folder(farm)
    assert domain.counts() == {"ant": 1, "bee": 1, "cow": 3}
    skipped = dict(domain.skipped)
    assert set(skipped) == {"loop", "up", "cow/self.png", "cow/broken.png"}
    assert "leads back" in skipped["loop"]


def test_a_loop_inside_of_a_class_is_an_error_and_not_endless(farm: Path) -> None:
    (farm / "cow" / "again").symlink_to(farm / "cow")
    with pytest.raises(InputError, match="nested too deeply"):
        open_folder(farm)


@pytest.mark.parametrize("strange", ["train/cow/a.png", "cow/more/b.png"])
def test_nesting_is_an_error_that_shows_what_was_found(strange: str, tmp_path: Path) -> None:
    paint(tmp_path / "data" / strange)
    if strange.startswith("cow"):
        paint(tmp_path / "data" / "cow" / "a.png")
    top, middle, leaf = strange.split("/")
    with pytest.raises(InputError) as error:
        open_folder(tmp_path / "data")
    for word in ("nested too deeply", "data/<class>/<image>", f"1 folder ({top})", f"{top}/{middle}/", leaf):
        assert word in str(error.value)


def test_images_without_class_folders_are_an_error_with_advice(tmp_path: Path) -> None:
    paint(tmp_path / "a.png")
    with pytest.raises(InputError, match=r"images but no class folders: found 1 file \(a\.png\).*path,label"):
        open_folder(tmp_path)


def test_nothing_absent_and_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no images: found nothing"):
        open_folder(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        open_folder(tmp_path / "absent")
    with pytest.raises(InputError, match="is a file"):
        open_folder(paint(tmp_path / "a.png"))


def test_opening_decodes_nothing(farm: Path) -> None:
    (farm / "cow" / "fake.jpg").write_text("no image at all")
    assert len(open_folder(farm, strict=True)) == 4


@pytest.mark.skipif(os.name != "posix", reason="pipes as on posix")
def test_a_pipe_is_skipped_and_not_waited_for(farm: Path) -> None:
    os.mkfifo(farm / "cow" / "pipe.jpg")
    os.utime(farm / "cow" / "pipe.jpg", ns=(0, 2_000_000_000))
    (farm / "table.csv").write_text("path,label\ncow/pipe.jpg,cow\ncow/a.png,cow\n")
    with not_for_ever():
        domain, listed = open_folder(farm), open_listing(farm / "table.csv")
    for opened in (domain, listed):
        assert ("cow/pipe.jpg", "not a regular file") in opened.skipped
    assert len(listed) == 1
