"""A head, an adapter, a method, a backbone and a domain, each as small as it can be."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from cplsr import Adapter, Backbone, Domain, InputError
from cplsr.adapters import Shape
from cplsr.episodes.heads import ProductHead, Products
from cplsr.methods import Method, Share, prototype_logits, prototype_loss
from cplsr.training import Embed, Loss, Objective, TrainingEpisode


@dataclass(frozen=True)
class NearestExample(ProductHead):
    """A class is as likely as its example that is most like the query."""

    name: ClassVar[str] = "nearest_example"

    def from_products(self, products: Products) -> Tensor:
        """The largest cosine with an example of each class."""
        cosines = products.unit().of_queries
        return torch.stack([cosines[..., products.labels == c].amax(dim=-1) for c in range(products.way)], dim=-1)


class HeadTemperature(Adapter):
    """softmax(τ Q Kᵀ / √d_k) V with one τ per head and layer, 1 at the start."""

    kind: ClassVar[str] = "head_temperature"

    def __init__(self, shape: Shape, *, start: float = 1.0) -> None:
        super().__init__()
        self.tau = nn.ParameterList(torch.full((shape.heads,), start) for _ in range(shape.layers))

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Scale the queries, which scales the scores."""
        factor = self.tau[layer].to(queries.dtype).view(-1, 1, 1)
        return super().attend(layer, queries * factor, keys, values)

    def fold(self, backbone: Backbone) -> None:
        """Scale each head's rows of the query projection."""
        for tau, block in zip(self.tau, backbone.blocks, strict=True):
            query: Any = block.attention.q_proj
            factor = tau.repeat_interleave(backbone.head_dim)
            query.weight.data *= factor.unsqueeze(1)
            query.bias.data *= factor


@dataclass(eq=False)
class HiddenPatches(Objective):
    """The prototype loss of images of which some patches, other ones each time, are zero."""

    name: ClassVar[str] = "hidden_patches"

    hidden: Share = 0.25
    """How many of the patches."""

    def prepare(self, backbone: Backbone, classes: int) -> None:
        """Which tokens are patches."""
        self.patches = backbone.patches

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """Hide patches before the first block."""

        def between(layer: int, tokens: Tensor) -> Tensor:
            if layer > 0:
                return tokens
            kept = torch.rand(len(tokens), self.patches, 1, generator=episode.generator) >= self.hidden
            return torch.cat([tokens[:, : -self.patches], tokens[:, -self.patches :] * kept.to(tokens)], dim=1)

        return prototype_loss(episode, prototype_logits(episode, embed(episode.images, between), 20.0))


HIDDEN_PATCHES = Method("hidden_patches", "this example", HiddenPatches)


def untrained_vit() -> tuple[nn.Module, tuple[float, float, float], tuple[float, float, float]]:
    """A tiny vision transformer with random weights, and the colors it expects."""
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=32, patch_size=8
    )
    return ViTModel(config, add_pooling_layer=False), (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)


def open_stripes(rest: str, *, split: str | None = None, strict: bool = False) -> Domain:
    """Stripes of 2 to 9 pixels, so many pictures of each width as the source says: `stripes:30`."""
    if not rest.isdigit() or split is not None:
        raise InputError(f"stripes:{rest} is not known: give the number of pictures of each class, as stripes:30")
    widths, count = range(2, 10), int(rest)
    return Domain(
        name="stripes",
        classes=tuple(f"{width} pixels" for width in widths),
        labels=np.repeat(np.arange(len(widths)), count),
        identities=tuple(f"stripes {width} {number}" for width in widths for number in range(count)),
        reader=partial(draw_stripes, count),
    )


def draw_stripes(count: int, index: int) -> Image.Image:
    """Picture number `index`, with an angle and an offset of its own."""
    random = np.random.default_rng(index)
    angle, offset, width = random.uniform(0, np.pi), random.uniform(0, 20), 2 + index // count
    y, x = np.mgrid[:32, :32]
    lit = ((x * np.cos(angle) + y * np.sin(angle) + offset) // width) % 2
    return Image.fromarray((255 * lit).astype(np.uint8)).convert("RGB")
