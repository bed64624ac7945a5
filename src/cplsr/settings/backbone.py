"""The options that go with every `--backbone`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from cplsr.declared import Declared, above, between

Pooling = Literal["cls", "mean", "depth"]
ClassifierPooling = Literal["auto", "cls", "mean", "depth"]
Views = Literal["plain", "mirrored", "turned"]
Precision = Literal["auto", "fp32", "bf16"]
Channel = Annotated[float, between(-1000, 1000)]
Spread = Annotated[float, above(0, 1000)]


@dataclass(frozen=True)
class BackboneSettings(Declared):
    """Which frozen vision transformer, and how it is run."""

    backbone: str = "embedded"
    """Hub id, transformers folder, checkpoint file (.pth, .pt, .safetensors), or 'embedded'."""
    image_size: Annotated[int, between(1, 4096)] | None = None
    """Pixels a side, a multiple of the patch size. Default: the adapter's, else the backbone's own."""
    heads: Annotated[int, between(1, 1024)] | None = None
    """Attention heads of a checkpoint file. Default: width / 64."""
    mean: tuple[Channel, Channel, Channel] | None = None
    """Mean of the backbone's training images, red green blue. Default: what comes with it."""
    std: tuple[Spread, Spread, Spread] | None = None
    """Their standard deviation."""
    pooling: Pooling = "cls"
    """Embedding: class token after the final norm, mean of the patch tokens, or both of every block, side by side."""
    layers: tuple[Annotated[int, between(-1000, 1000)], ...] | None = None
    """Blocks that --pooling depth reads, counted from 0, negative from the end. Default: all."""
    views: Views = "plain"
    """How often an image is looked at, for the mean of its embeddings: once; also mirrored (twice the work); or
    mirrored and turned by quarters (eight times), for images that have no upright position."""
    precision: Precision = "fp32"
    """Number format; auto is bf16 where the hardware multiplies it."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""
    antialias: bool = True
    """Antialias the interpolation of position embeddings (off: transformers' and DINO's own way)."""
