"""Reading image files that are not what their names promise, and telling versions of a file apart."""

import io
import os
import pickle
import socket
import struct
import sys
import types
import zlib
from pathlib import Path

import numpy as np
import pytest
from oracles.patience import not_for_ever
from PIL import Image, features

from cplsr.data import image_file
from cplsr.data.domain import UnreadableImageError
from cplsr.data.identity import look_at_files
from cplsr.data.image_file import FileReader, is_image_name, read_image


def jpeg(side: int = 64) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)).save(stream, "JPEG")
    return stream.getvalue()


def png_header_of(width: int, height: int) -> bytes:
    """A PNG whose header promises any size, with next to no data behind it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n0 0 moveto\n"
BAD = {
    "truncated": (jpeg()[:900], "truncated"),
    "text": (b"this is no image", "not an image of a known format"),
    "empty": (b"", "0 bytes"),
    "bomb": (png_header_of(12_000, 12_000), "12,000 × 12,000 pixels, more than the 30,000 on a side or 89 megapixels"),
    "huge bomb": (png_header_of(60_000, 60_000), "more pixels than"),
    "one long line": (png_header_of(49_000_000, 1), "49,000,000 × 1 pixels"),
    "just too long": (png_header_of(1, 30_001), "1 × 30,001 pixels"),
    "postscript": (POSTSCRIPT, "not an image of a known format"),
    "short png": (png_header_of(100, 100), "damaged image"),
}


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("from_file", [True, False])
def test_bad_files_are_unreadable_with_a_reason(case: str, from_file: bool, tmp_path: Path) -> None:
    content, reason = BAD[case]
    path = tmp_path / "pic.jpg"
    path.write_bytes(content)
    with pytest.raises(UnreadableImageError, match=reason):
        read_image(path if from_file else content)


def test_a_folder_and_nothing_are_unreadable_too(tmp_path: Path) -> None:
    with pytest.raises(UnreadableImageError, match="no such file"):
        read_image(tmp_path / "absent.jpg")
    with pytest.raises(UnreadableImageError, match="not a regular file"):
        read_image(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="pipes as on posix")
def test_only_regular_files_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    os.utime(tmp_path / "pipe.jpg", ns=(0, 2_000_000_000))
    (tmp_path / "endless.png").symlink_to("/dev/zero")
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server, not_for_ever():
        server.bind("socket.png")
        for name in ("pipe.jpg", "endless.png", "socket.png"):
            with pytest.raises(UnreadableImageError, match="not a regular file"):
                read_image(tmp_path / name)
            assert look_at_files(str(tmp_path), [name])[0].problem == "not a regular file"


def test_too_little_memory_for_one_image_is_that_images_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(self: Image.Image) -> None:
        raise MemoryError

    monkeypatch.setattr("PIL.JpegImagePlugin.JpegImageFile.load", load)
    with pytest.raises(UnreadableImageError, match="too little memory"):
        read_image(jpeg())


@pytest.mark.parametrize("brand", [b"heic", b"mif1"])
def test_a_format_that_needs_a_package_says_which(brand: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"\0\0\0\x18ftyp" + brand + b"\0" * 40
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    image_file._formats.cache_clear()
    with pytest.raises(UnreadableImageError, match="pip install pillow-heif"):
        read_image(content)
    assert is_image_name("IMG_0001.HEIC")

    def register() -> None:
        """What the package does, with a reader that sees the same picture in everything."""
        Image.register_open("HEIF", lambda stream, name: Image.new("RGB", (3, 2)), lambda start: brand in start)

    monkeypatch.setitem(sys.modules, "pillow_heif", types.SimpleNamespace(register_heif_opener=register))
    image_file._formats.cache_clear()
    try:
        assert read_image(content).size == (3, 2)
        with pytest.raises(UnreadableImageError, match=r"damaged image$"):
            read_image(content.replace(brand, b"hevc"))  # the package is there, and does not know what this is
    finally:
        Image.OPEN.pop("HEIF")
        Image.ID.remove("HEIF")
        image_file._formats.cache_clear()


def test_a_picture_of_a_telephone(tmp_path: Path) -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    picture = Image.linear_gradient("L").resize((40, 24)).convert("RGB")
    pillow_heif.from_pillow(picture).save(tmp_path / "IMG_0001.HEIC", quality=90)

    image = read_image(tmp_path / "IMG_0001.HEIC").convert("RGB")

    assert image.size == (40, 24)
    difference = np.abs(np.asarray(image, dtype=int) - np.asarray(picture, dtype=int))
    assert difference.mean() < 6


@pytest.mark.parametrize("cut", range(10, 1800, 97))
def test_a_jpeg_cut_anywhere_never_raises_anything_else(cut: int) -> None:
    with pytest.raises(UnreadableImageError):
        read_image(jpeg()[:cut])


@pytest.mark.filterwarnings("ignore")
def test_bytes_damaged_anywhere_are_an_image_or_unreadable() -> None:
    stream = io.BytesIO()
    Image.fromarray(np.arange(4096, dtype=np.uint16).reshape(64, 64)).save(stream, "TIFF")
    images = {"jpeg": jpeg(), "tiff": stream.getvalue(), "png": png_header_of(10, 9)}
    if features.check("avif"):
        stream = io.BytesIO()
        Image.new("RGB", (16, 16)).save(stream, "AVIF")
        images["avif"] = stream.getvalue()
    random = np.random.default_rng(0)
    outcomes = set()
    for content in images.values():
        for _ in range(60):
            damaged = bytearray(content)
            for place in random.integers(0, min(len(damaged), 400), 4):
                damaged[place] = random.integers(0, 256)
            try:
                outcomes.add(type(read_image(bytes(damaged)).size))
            except UnreadableImageError:
                outcomes.add(UnreadableImageError)
    assert outcomes == {tuple, UnreadableImageError}


def test_the_file_is_closed_and_the_pixels_stay(tmp_path: Path) -> None:
    path = tmp_path / "pic with spaces äöü.jpg"
    path.write_bytes(jpeg())
    image = read_image(path)
    path.unlink()
    assert np.asarray(image).shape == (64, 64, 3)
    assert image.fp is None


@pytest.mark.parametrize(("name", "wanted"), [("a.JPG", True), ("b.tiff", True), ("c.txt", False), ("jpg", False)])
def test_image_names(name: str, wanted: bool) -> None:
    assert is_image_name(name) is wanted


def test_the_reader_pickles(tmp_path: Path) -> None:
    (tmp_path / "x.jpg").write_bytes(jpeg(8))
    reader = pickle.loads(pickle.dumps(FileReader(str(tmp_path), ("x.jpg",))))
    assert reader(0).size == (8, 8)
