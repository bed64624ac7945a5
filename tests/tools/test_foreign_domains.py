"""Validation domains cut out of one large image, or out of textures in an archive."""

import io
import runpy
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

tool = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "foreign_domains.py"))
write_domain, REGIONS = tool["write_domain"], tool["REGIONS"]


def pixels(path):
    return np.asarray(Image.open(path))


def test_squares_of_the_globe_lie_in_their_regions(tmp_path):
    x, y = np.meshgrid(np.arange(5400) // 30, np.arange(2700) // 15)  # colors say which two degrees and which degree
    Image.fromarray(np.stack([x, y, 0 * x], axis=-1).astype(np.uint8)).save(tmp_path / "globe.png")

    count = write_domain("blue-marble", tmp_path / "globe.png", tmp_path / "out")

    assert count == 40 * len(REGIONS)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(REGIONS)
    for name, (west, south, east, north) in REGIONS.items():
        squares = np.stack([pixels(path) for path in (tmp_path / "out" / name).iterdir()])
        assert squares.shape == (40, 48, 48, 3)
        assert west + 180 - 1 <= 2 * int(squares[..., 0].min()) <= 2 * int(squares[..., 0].max()) < east + 180
        assert 90 - north <= int(squares[..., 1].min()) <= int(squares[..., 1].max()) < 90 - south
        assert len({square.tobytes() for square in squares}) > 20


def test_squares_of_a_texture_keep_its_color_but_for_the_light_and_come_out_the_same_again(tmp_path):
    with zipfile.ZipFile(tmp_path / "textures.jar", "w") as archive:
        for name, color in (("wall", (120, 60, 60)), ("grass", (40, 120, 40))):
            content = io.BytesIO()
            Image.new("RGB", (100, 60), color).save(content, "JPEG", quality=95)
            archive.writestr(f"io/resources/textures/{name}.jpg", content.getvalue())
        archive.writestr("io/resources/other.jpg", b"no texture")

    assert write_domain("textures", tmp_path / "textures.jar", tmp_path / "one") == 40
    write_domain("textures", tmp_path / "textures.jar", tmp_path / "two")

    for path in (tmp_path / "one").rglob("*.png"):
        image = pixels(path)
        assert 18 <= image.shape[0] == image.shape[1] <= 30
        red, green = image[..., 0].mean(), image[..., 1].mean()
        assert red > green if path.parent.name == "wall" else green > red
        assert np.array_equal(image, pixels(tmp_path / "two" / path.relative_to(tmp_path / "one")))
