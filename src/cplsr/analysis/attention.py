"""Where a backbone looks: the attention of every layer in one pass, and its entropy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from cplsr.backbones.backbone import Backbone
from cplsr.backbones.block_points import BlockPoints, RelayedPoints, attention_map
from cplsr.errors import InputError

See = Callable[[int, Float[Tensor, "batch heads rows tokens"]], None]

IMAGES_AT_A_TIME = 8
"""Attention maps take tokens² numbers per head and image, so that few images go together."""


@dataclass(frozen=True, eq=False)
class AttentionEntropy:
    """Mean entropy of attention in nats: of the class token's row, and of all rows.

    0 is a row that looks at one token alone, ln(tokens) one that looks at all alike.
    """

    cls: Float64[Tensor, "layers heads"]
    rows: Float64[Tensor, "layers heads"]


def visit_attention(backbone: Backbone, images: Tensor, see: See) -> None:
    """Show the attention maps of every layer to `see(layer, maps)`, softmax and adapter included, in one pass."""
    with torch.inference_mode():  # of the last layer, for which all the earlier ones have to run
        backbone.attention_maps(images, around=partial(_Observed, see))


def entropy(maps: Float[Tensor, "*batch rows tokens"]) -> Float[Tensor, "*batch rows"]:
    """−Σ a ln a of every row of attention, in nats."""
    wide = maps if maps.dtype == torch.float64 else maps.float()
    return torch.special.entr(wide).sum(dim=-1)


def attention_entropy(backbone: Backbone, images: Tensor) -> AttentionEntropy:
    """Entropy of the attention of every layer and head, averaged over images (uint8 or normalized).

    With soft prompts the rows are longer, and their entropy may be larger for that reason alone.
    """
    if len(images) == 0:
        raise InputError("the entropy of attention was asked for over no images: give at least one")
    shape = (backbone.layers, backbone.heads)
    cls, rows = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64)

    def add(layer: int, maps: Tensor) -> None:
        entropies = entropy(maps).double()  # (batch, heads, rows)
        cls[layer] += entropies[:, :, 0].sum(dim=0).cpu()
        rows[layer] += entropies.mean(dim=2).sum(dim=0).cpu()

    for part in images.split(IMAGES_AT_A_TIME):
        visit_attention(backbone, part, add)
    return AttentionEntropy(cls / len(images), rows / len(images))


def cls_attention(backbone: Backbone, images: Tensor, layer: int = -1) -> Float[Tensor, "batch heads side side"]:
    """How much the class token looks at each patch, as maps in the layout of the image."""
    side = backbone.image_size // backbone.patch_size
    parts = []
    for part in images.split(IMAGES_AT_A_TIME):
        with torch.inference_mode():
            row = backbone.attention_maps(part, layer)[:, :, 0, -backbone.patches :]
        parts.append(row.unflatten(-1, (side, side)).float().cpu())
    return torch.cat(parts)


class _Observed(RelayedPoints):
    """Other points, with every attention map shown to `see` before it is applied to the values."""

    def __init__(self, see: See, points: BlockPoints) -> None:
        super().__init__(points)
        self.see = see

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        maps = attention_map(self.points, layer, queries, keys)
        self.see(layer, maps)
        return maps @ values
