"""What the doctor finds in a folder in which everything is wrong, and in one in which nothing is."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cplsr.data.doctor import Finding, examine
from cplsr.data.folder import open_folder
from cplsr.settings.episodes import EpisodeShape


def paint(path: Path, number: int, mode: str = "RGB", **options: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(number).integers(0, 256, (8, 6, 3), dtype=np.uint8)
    Image.fromarray(noise).convert(mode).save(path, **options)


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    for label in range(3):
        for number in range(4):
            paint(tmp_path / f"class {label}" / f"{number}.png", 10 * label + number)
    return tmp_path


def look(root: Path, way: int = 3, shot: int = 1, query: int = 2) -> tuple[Finding, ...]:
    return examine(open_folder(root), EpisodeShape(way=way, shot=shot, query=query), workers=0)


def usable(findings: tuple[Finding, ...]) -> bool:
    return all(finding.verdict != "bad" for finding in findings)


def remarks(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.text for finding in findings if finding.verdict != "good"]


def test_a_healthy_folder_is_all_good(healthy: Path) -> None:
    findings = look(healthy)
    assert usable(findings)
    assert remarks(findings) == []
    texts = [finding.text for finding in findings]
    assert "3 classes, 12 images" in texts
    assert "6 × 8 pixels" in texts


def test_unreadable_files_are_named_with_the_reason_and_advice(healthy: Path) -> None:
    (healthy / "class 0" / "text.jpg").write_text("no image")
    (healthy / "class 0" / "empty.jpg").touch()
    findings = look(healthy)
    assert usable(findings)
    assert remarks(findings) == [
        "1 file left out: class 0/empty.jpg (0 bytes)",
        "1 image cannot be read: class 0/text.jpg (not an image of a known format)",
    ]
    assert all(finding.fix for finding in findings if finding.verdict != "good")


def test_classes_that_are_too_small_count_readable_images_only(healthy: Path) -> None:
    (healthy / "class 1" / "2.png").write_text("no image")
    (healthy / "class 1" / "3.png").write_text("no image")
    fine = look(healthy, way=2)
    assert usable(fine)
    assert "1 class with fewer than 1 shot + 2 query = 3 images: class 1 (2)" in remarks(fine)
    bad = look(healthy, way=3)
    assert not usable(bad)
    assert any("2 classes of 3 with 1 shot + 2 query = 3 images, but episodes have 3" in text for text in remarks(bad))


def test_duplicates_across_and_within_classes(healthy: Path) -> None:
    paint(healthy / "class 2" / "copy.bmp", 1)  # the pixels of class 0/1.png in another format
    paint(healthy / "class 1" / "again.png", 12)
    texts = remarks(look(healthy))
    assert texts == [
        "1 image in more than one class: class 0/1.png = class 2/copy.bmp",
        "1 image more than once in a class: class 1/2.png = class 1/again.png",
    ]


def test_kinds_of_images_are_counted(healthy: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    paint(healthy / "class 0" / "grey.png", 50, "L")
    paint(healthy / "class 0" / "clear.png", 51, "RGBA")
    paint(healthy / "class 0" / "print.jpg", 52, "CMYK")
    paint(healthy / "class 0" / "turned.jpg", 53, exif=exif)
    Image.fromarray(np.arange(48, dtype=np.uint16).reshape(8, 6)).save(healthy / "class 0" / "deep.png")
    findings = look(healthy)
    assert remarks(findings) == []
    (text,) = [finding.text for finding in findings if finding.text.startswith("not plain RGB")]
    for part in ("1 grey", "1 RGBA", "1 CMYK", "1 more than 8 bits", "1 turned by EXIF", "nothing to do"):
        assert part in text


def test_long_lists_are_cut(healthy: Path) -> None:
    for number in range(30):
        (healthy / "class 0" / f"bad{number:02}.jpg").write_text("x")
    (text,) = remarks(look(healthy))
    assert text.startswith("30 images cannot be read: class 0/bad00.jpg")
    assert text.endswith("and 26 more")


def test_nothing_readable_at_all(tmp_path: Path) -> None:
    (tmp_path / "cow").mkdir()
    (tmp_path / "cow" / "a.jpg").write_text("x")
    assert not usable(look(tmp_path, way=1))
