from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from cplsr.app.uploads import Limits, free_name, read_picture, receive
from cplsr.data.domain import UnreadableImageError
from cplsr.data.image_file import read_image
from cplsr.data.preprocess import preprocess

SIZE = 32


def _noise(width: int, height: int, channels: int = 3, seed: int = 0) -> Image.Image:
    shape = (height, width, channels) if channels > 1 else (height, width)
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8))


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(
    width=st.integers(1, 90),
    height=st.integers(1, 90),
    channels=st.sampled_from([1, 3, 4]),
    orientation=st.integers(1, 8),
    size=st.sampled_from([16, 32, 48]),
)
def test_what_is_kept_gives_the_same_pixels_as_the_file(
    tmp_path: Path, width: int, height: int, channels: int, orientation: int, size: int
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = tmp_path / "picture.png"
    _noise(width, height, channels).save(file, exif=exif)
    picture = read_picture(file, "picture.png", size, Limits())
    assert np.array_equal(preprocess(picture.square(), size), preprocess(read_image(file), size))


def test_a_thumbnail_is_small_and_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    _noise(800, 400).save(tmp_path / "turned.jpg", exif=exif)
    (tmp_path / "shown.jpg").write_bytes(read_picture(tmp_path / "turned.jpg", "turned.jpg", SIZE, Limits()).thumbnail)
    with Image.open(tmp_path / "shown.jpg") as shown:
        assert shown.format == "JPEG"
        assert shown.size == (96, 192)
        assert 0x0112 not in shown.getexif()


def test_bad_files_are_named_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "notes.png").write_text("not a picture")
    (tmp_path / "empty.jpg").write_bytes(b"")
    _noise(30, 20).save(tmp_path / "whole.png")
    (tmp_path / "torn.png").write_bytes((tmp_path / "whole.png").read_bytes()[:400])
    names = ["notes.png", "empty.jpg", "torn.png", "gone.png", "whole.png"]
    pictures, unreadable = receive([tmp_path / name for name in names], SIZE, Limits())
    assert [picture.name for picture in pictures] == ["whole.png"]
    assert [name for name, _ in unreadable] == names[:4]
    assert "not an image of a known format" in unreadable[0][1]


def test_a_file_that_would_start_another_program_is_not_opened(tmp_path: Path) -> None:
    script = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n0 0 moveto\n"
    (tmp_path / "drawing.png").write_text(script)
    with Image.open(tmp_path / "drawing.png") as opened:
        assert opened.format == "EPS"
    with pytest.raises(UnreadableImageError, match="known format"):
        read_picture(tmp_path / "drawing.png", "drawing.png", SIZE, Limits())


def test_bytes_and_pixels_are_limited(tmp_path: Path) -> None:
    files = []
    for seed in range(4):
        files.append(tmp_path / f"{seed}.png")
        _noise(30, 20, seed=seed).save(files[-1])
    with pytest.raises(UnreadableImageError, match="MB allowed"):
        read_picture(files[0], "0.png", SIZE, Limits(file_bytes=1000))
    with pytest.raises(UnreadableImageError, match="megapixels"):
        read_picture(files[0], "0.png", SIZE, Limits(pixels=599))
    assert read_picture(files[0], "0.png", SIZE, Limits(pixels=600)).name == "0.png"


def test_a_header_that_promises_too_much_is_refused_before_decoding(tmp_path: Path) -> None:
    size = (60_000).to_bytes(4, "big")
    _noise(4, 4).save(tmp_path / "bomb.png")
    content = bytearray((tmp_path / "bomb.png").read_bytes())
    content[16:24] = size + size
    import zlib

    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    (tmp_path / "bomb.png").write_bytes(content)
    with pytest.raises(UnreadableImageError, match="megapixels"):
        read_picture(tmp_path / "bomb.png", "bomb.png", SIZE, Limits())


@given(st.sets(st.sampled_from(["a.png", "a (2).png", "a (3).png", "b.png"])))
def test_names_stay_unique(used: set[str]) -> None:
    free = free_name("a.png", used)
    assert free not in used
    assert free == "a.png" or "a.png" in used


def test_two_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for seed, folder in enumerate(("one", "two")):
        (tmp_path / folder).mkdir()
        _noise(8, 8, seed=seed).save(tmp_path / folder / "a.png")
    pictures, _ = receive([tmp_path / "one/a.png", tmp_path / "two/a.png"], SIZE, Limits(), taken={"a (2).png"})
    assert [picture.name for picture in pictures] == ["a.png", "a (3).png"]
    assert pictures[0].digest != pictures[1].digest


def test_too_little_memory_for_one_picture_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / "large.png", tmp_path / "small.png"]
    for file, side in zip(files, (60, 20), strict=True):
        _noise(side, side).save(file)
    resize = Image.Image.resize

    def resized(self: Image.Image, *arguments: object, **options: object) -> Image.Image:
        if self.width == 60:
            raise MemoryError
        return resize(self, *arguments, **options)

    monkeypatch.setattr(Image.Image, "resize", resized)
    pictures, unreadable = receive(files, SIZE, Limits())
    assert [picture.name for picture in pictures] == ["small.png"]
    assert unreadable == [("large.png", "there is too little memory to decode it")]
