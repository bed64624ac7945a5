"""Preprocessing against literal transcriptions of what each kind of image should become."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from cplsr.data.domain import UnreadableImageError
from cplsr.data.preprocess import preprocess, to_rgb, upright


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def literal(rgb: Image.Image, size: int) -> np.ndarray:
    """Resize to the square, then copy the center pixel by pixel."""
    side = int(1.15 * size)
    square = rgb.resize((side, side), Image.BICUBIC)
    start = round((side - size) / 2)
    out = np.zeros((3, size, size), dtype=np.uint8)
    for y in range(size):
        for x in range(size):
            for channel, value in enumerate(square.getpixel((start + x, start + y))):
                out[channel, y, x] = value
    return out


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 40), st.integers(0, 1000))
def test_any_rgb_image_is_resized_and_cropped_as_written(height: int, width: int, size: int, seed: int) -> None:
    image = Image.fromarray(noise(height, width, seed=seed))
    pixels = preprocess(image, size)
    assert pixels.dtype == np.uint8
    assert pixels.flags.c_contiguous
    np.testing.assert_array_equal(pixels, literal(image, size))


@pytest.mark.parametrize(("size", "side", "start"), [(224, 257, 16), (112, 128, 8), (84, 96, 6)])
def test_sides_and_margins_of_the_usual_sizes(size: int, side: int, start: int) -> None:
    image = Image.fromarray(noise(side, side))  # already of the resized side, so that resizing changes nothing
    np.testing.assert_array_equal(
        preprocess(image, size), np.asarray(image)[start : start + size, start : start + size].transpose(2, 0, 1)
    )


def test_a_large_jpeg_is_decoded_in_full_before_it_is_made_small() -> None:
    stream = io.BytesIO()
    Image.fromarray(noise(600, 600)).save(stream, "JPEG", quality=95)
    full = Image.open(io.BytesIO(stream.getvalue())).convert("RGB")
    np.testing.assert_array_equal(preprocess(Image.open(stream), 16), literal(full, 16))


def test_grey_and_bilevel_become_equal_channels() -> None:
    grey = noise(5, 7)[:, :, 0]
    np.testing.assert_array_equal(np.asarray(to_rgb(Image.fromarray(grey))), np.stack([grey] * 3, axis=-1))
    bilevel = Image.fromarray(grey > 99)
    assert bilevel.mode == "1"
    np.testing.assert_array_equal(np.asarray(to_rgb(bilevel)), np.stack([(grey > 99) * 255] * 3, axis=-1))


def test_transparency_lies_on_white() -> None:
    rgba = noise(6, 6, 4)
    alpha = rgba[..., 3:].astype(float) / 255
    wanted = rgba[..., :3] * alpha + 255 * (1 - alpha)
    assert np.abs(np.asarray(to_rgb(Image.fromarray(rgba))) - wanted).max() <= 1
    clear = Image.new("RGBA", (2, 2), (10, 20, 30, 0))
    assert np.asarray(to_rgb(clear)).min() == 255
    assert np.asarray(to_rgb(Image.new("LA", (2, 2), (10, 0)))).min() == 255


def test_palettes_give_their_colors_and_transparent_entries_white() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([200, 100, 50, 1, 2, 3])
    image.putpixel((1, 0), 1)
    assert np.asarray(to_rgb(image)).tolist() == [[[200, 100, 50], [1, 2, 3]]]
    image.info["transparency"] = 1
    assert np.asarray(to_rgb(image)).tolist() == [[[200, 100, 50], [255, 255, 255]]]


def test_a_transparent_color_of_a_plain_rgb_png_is_white() -> None:
    stream = io.BytesIO()
    Image.new("RGB", (2, 2), (1, 2, 3)).save(stream, "PNG", transparency=(1, 2, 3))
    assert np.asarray(to_rgb(Image.open(stream))).min() == 255


def test_cmyk_is_converted() -> None:
    image = Image.new("CMYK", (1, 1), (0, 255, 255, 0))
    red, green, blue = to_rgb(image).getpixel((0, 0))
    assert (red, green, blue) == (255, 0, 0)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_16_bits_are_scaled_not_clipped(kind: str) -> None:
    values = np.array([[0, 128, 129, 257, 32768, 65535]], dtype=np.uint16)
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, kind)
    rgb = np.asarray(to_rgb(Image.open(stream)))
    assert rgb[0, :, 0].tolist() == [0, 0, 1, 1, 128, 255] == [round(value / 257) for value in values[0].tolist()]
    assert (rgb == rgb[..., :1]).all()


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (np.array([[0, 65535]], dtype=np.int32), [0, 255]),
        (np.array([[-100, 0, 100]], dtype=np.int32), [0, 128, 255]),
        (np.array([[0, 1_000_000]], dtype=np.int32), [0, 255]),
        (np.array([[0.0, 0.5, 1.0]], dtype=np.float32), [0, 128, 255]),
        (np.array([[2.0, 3.0, 4.0]], dtype=np.float32), [0, 128, 255]),
        (np.array([[np.nan, 1.0]], dtype=np.float32), [0, 255]),
    ],
)
def test_wide_integers_and_floats_have_a_range(values: np.ndarray, wanted: list[int]) -> None:
    assert np.asarray(to_rgb(Image.fromarray(values)))[0, :, 0].tolist() == wanted


@pytest.mark.parametrize("value", [-3.0, 7.0])
def test_a_constant_float_image_outside_of_the_range_is_black(value: float) -> None:
    assert np.asarray(to_rgb(Image.fromarray(np.full((2, 2), value, dtype=np.float32)))).max() == 0


def test_a_color_mode_without_conversion_is_unreadable() -> None:
    with pytest.raises(UnreadableImageError, match="color mode La"):
        to_rgb(Image.new("La", (1, 1)))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
def test_exif_orientation_is_followed_once(orientation: int, kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    stream = io.BytesIO()
    Image.fromarray(noise(8, 16)).save(stream, kind, exif=exif)
    stream.seek(0)
    wanted = ImageOps.exif_transpose(Image.open(io.BytesIO(stream.getvalue())))
    got = Image.open(stream)
    got.load()
    np.testing.assert_array_equal(np.asarray(upright(got)), np.asarray(wanted))


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
@pytest.mark.parametrize("damage", [b"Exif\x00\x00garbage", b"Exif\x00\x00II*\x00\xff\xff\xff\xff", b""])
def test_damaged_exif_data_count_as_none(damage: bytes) -> None:
    image = Image.fromarray(noise(4, 4))
    image.info["exif"] = damage
    np.testing.assert_array_equal(preprocess(image, 4), preprocess(Image.fromarray(noise(4, 4)), 4))
