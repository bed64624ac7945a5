"""The options that go with every `--backbone`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from cplsr.backbones.backbone import Backbone


@dataclass(frozen=True, kw_only=True)
class BackboneArguments:
    """Which frozen vision transformer, and how it is run."""

    backbone: str = "embedded"
    """Hub id, transformers folder, checkpoint file (.pth, .pt, .safetensors), or 'embedded'."""
    image_size: int | None = None
    """Pixels a side, a multiple of the patch size. Default: the adapter's, else the backbone's own."""
    heads: int | None = None
    """Attention heads of a checkpoint file. Default: width / 64."""
    mean: tuple[float, float, float] | None = None
    """Mean of the backbone's training images, red green blue. Default: what comes with it."""
    std: tuple[float, float, float] | None = None
    """Their standard deviation."""
    pooling: Literal["cls", "mean", "depth"] = "cls"
    """Embedding: class token after the final norm, mean of the patch tokens, or both of every block, side by side."""
    layers: tuple[int, ...] | None = None
    """Blocks that --pooling depth reads, counted from 0, negative from the end. Default: all."""
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    """Number format; auto is bf16 where the hardware multiplies it."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps."""
    antialias: bool = True
    """Antialias the interpolation of position embeddings (off: transformers' and DINO's own way)."""

    def load(self, image_size: int | None = None) -> Backbone:
        """Load the backbone; `image_size` stands in where none was given."""
        from cplsr.backbones.load import load_backbone

        return load_backbone(
            self.backbone,
            self.image_size or image_size,
            heads=self.heads,
            mean=self.mean,
            std=self.std,
            pooling=self.pooling,
            layers=self.layers,
            device=self.device,
            precision=self.precision,
            antialias=self.antialias,
        )
