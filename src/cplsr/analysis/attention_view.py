"""Where each head looks, laid over the image: before training above, after training below."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float32, UInt8
from numpy import ndarray
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

GAP = 4
CAPTION = 16
OPACITY = 0.6
BACKGROUND = (255, 255, 255)
INK = (40, 40, 40)
# Dark to bright and through different hues, so that it also reads in gray: black, violet, red, orange, pale yellow.
RAMP = ((0, 0, 4), (87, 16, 110), (188, 55, 84), (249, 142, 9), (252, 255, 164))


def attention_picture(
    image: UInt8[Tensor, "3 size size"],
    before: Float[Tensor, "heads side side"],
    after: Float[Tensor, "heads side side"] | None = None,
    *,
    tile: int = 144,
) -> Image.Image:
    """A grid of tiles: the image, then one tile per head; a second row for the heads after training.

    The maps of one head share one scale, from no attention to the largest of the two, so that a paler tile does look
    less; different heads have scales of their own.
    """
    photo = Image.fromarray(np.ascontiguousarray(image.cpu().numpy().transpose(1, 2, 0)))
    photo = photo.resize((tile, tile), Image.Resampling.BICUBIC)
    stages = [("before", before)] if after is None else [("before", before), ("after", after)]
    heads = len(before)
    width = (heads + 1) * (tile + GAP) + GAP
    canvas = Image.new("RGB", (width, len(stages) * (tile + CAPTION + GAP) + GAP), BACKGROUND)
    draw = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(size=11)

    def place(picture: Image.Image, left: int, top: int, caption: str) -> None:
        canvas.paste(picture, (left, top))
        draw.text((left, top + tile + 1), caption, fill=INK, font=font)

    for row, (stage, maps) in enumerate(stages):
        top = GAP + row * (tile + CAPTION + GAP)
        place(photo, GAP, top, f"{stage} training")
        for head in range(heads):
            largest = max(float(stage_maps[head].max()) for _, stage_maps in stages)
            tile_image = overlay(photo, maps[head].float().cpu().numpy() / (largest or 1.0))
            place(tile_image, GAP + (head + 1) * (tile + GAP), top, f"head {head}")
    return canvas


def overlay(photo: Image.Image, strength: Float32[ndarray, "side side"]) -> Image.Image:
    """The photo in gray with a heat map over it; strengths from 0 to 1, enlarged smoothly to the photo's size."""
    enlarged = Image.fromarray(strength).resize(photo.size, Image.Resampling.BICUBIC)
    heat = Image.fromarray(heat_colors(np.clip(np.asarray(enlarged), 0, 1)))
    return Image.blend(photo.convert("L").convert("RGB"), heat, OPACITY)


def heat_colors(strength: Float32[ndarray, "height width"]) -> UInt8[ndarray, "height width 3"]:
    """Colors of strengths from 0 to 1 along `RAMP`."""
    stops = np.linspace(0, 1, len(RAMP))
    channels = [np.interp(strength, stops, [color[channel] for color in RAMP]) for channel in range(3)]
    return np.rint(np.stack(channels, axis=-1)).astype(np.uint8)
