"""Pictures of attention."""

import numpy as np
import torch
from PIL import Image

from cplsr.analysis.attention_view import CAPTION, GAP, RAMP, attention_picture, heat_colors, overlay


def photo(size=32):
    return torch.full((3, size, size), 128, dtype=torch.uint8)


def tile_of(picture, column, row, tile):
    left, top = GAP + column * (tile + GAP), GAP + row * (tile + CAPTION + GAP)
    return np.asarray(picture)[top : top + tile, left : left + tile].astype(int)


def test_the_grid_is_the_image_and_a_tile_for_each_head_and_stage():
    image = torch.randint(0, 256, (3, 40, 40), dtype=torch.uint8)
    maps = torch.rand(3, 4, 4)
    one = attention_picture(image, maps, tile=40)
    two = attention_picture(image, maps, maps, tile=40)
    assert one.size == (4 * 44 + GAP, 40 + CAPTION + 2 * GAP)
    assert two.size == (one.width, 2 * (40 + CAPTION + GAP) + GAP)
    np.testing.assert_array_equal(tile_of(one, 0, 0, 40), image.permute(1, 2, 0).numpy())
    np.testing.assert_array_equal(tile_of(two, 2, 0, 40), tile_of(two, 2, 1, 40))


def test_heat_lies_where_the_attention_is():
    maps = torch.zeros(1, 4, 4)
    maps[0, 0, 3] = 1  # top right
    tile = tile_of(attention_picture(photo(), maps, tile=64), 1, 0, 64).sum(-1)
    row, column = np.unravel_index(tile.argmax(), tile.shape)
    assert row < 16
    assert column >= 48
    assert tile[48:, :16].max() < tile[:16, 48:].mean()


def test_both_stages_of_a_head_share_a_scale_and_heads_do_not():
    strong, weak = torch.full((2, 2, 2), 0.8), torch.full((2, 2, 2), 0.4)
    weak[1] = 0.8
    picture = attention_picture(photo(), strong, weak, tile=16)
    assert tile_of(picture, 1, 0, 16).sum() > tile_of(picture, 1, 1, 16).sum()
    np.testing.assert_array_equal(tile_of(picture, 2, 0, 16), tile_of(picture, 2, 1, 16))
    faint = attention_picture(photo(), strong / 100, tile=16)
    np.testing.assert_array_equal(tile_of(faint, 1, 0, 16), tile_of(picture, 1, 0, 16))


def test_no_attention_at_all_is_dark_and_no_error():
    tile = tile_of(attention_picture(photo(), torch.zeros(1, 2, 2), tile=16), 1, 0, 16)
    assert (tile == tile[0, 0]).all()
    assert tile.max() < 128


def test_colors_follow_the_ramp_and_grow_brighter():
    stops = np.linspace(0, 1, len(RAMP), dtype=np.float32)[None]
    np.testing.assert_array_equal(heat_colors(stops)[0], RAMP)
    gray = [Image.fromarray(heat_colors(np.full((1, 1), s, dtype=np.float32))).convert("L").getpixel((0, 0))
            for s in np.linspace(0, 1, 30)]  # fmt: skip
    assert gray == sorted(gray)


def test_the_overlay_blends_gray_and_heat():
    red = Image.new("RGB", (8, 8), (200, 0, 0))
    gray = red.convert("L").getpixel((0, 0))
    mixed = np.asarray(overlay(red, np.ones((2, 2), dtype=np.float32)))[4, 4]
    np.testing.assert_allclose(mixed, 0.4 * gray + 0.6 * np.array(RAMP[-1]), atol=1.5)
