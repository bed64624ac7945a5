"""Milliseconds per image of depth embeddings, against mean pooling: a pass through all blocks for all tokens.

    python benchmarks/depth.py [--quick] [--json FILE]

ViT-Ti/16 and ViT-S/16 shapes at 224 px with random weights, which do not matter to time; both sides share them. The
class token alone (`cls`) is told beside them: there the last block is computed for one token.
"""

from __future__ import annotations

import torch
from claims import Claim, arguments, interleaved, report
from transformers import ViTConfig, ViTModel

from cplsr.backbones.backbone import Backbone
from cplsr.environment import keep_freed_memory

SHAPES = {"ViT-Ti/16": (192, 3), "ViT-S/16": (384, 6)}


def backbones(name: str) -> dict[str, Backbone]:
    """One model, read in three ways."""
    torch.manual_seed(0)
    dim, heads = SHAPES[name]
    config = ViTConfig(hidden_size=dim, num_hidden_layers=12, num_attention_heads=heads, intermediate_size=4 * dim)
    model = ViTModel(config, add_pooling_layer=False)
    colors = {"mean": (0.5,) * 3, "std": (0.5,) * 3}
    return {
        pooling: Backbone(model, source=f"random {name}", pooling=pooling, **colors)
        for pooling in ("mean", "depth", "cls")
    }


def milliseconds(name: str, images: int, repetitions: int) -> dict[str, float]:
    """Per image, the poolings taking turns."""
    pixels = torch.randn(images, 3, 224, 224)
    with torch.inference_mode():
        sides = {pooling: lambda b=backbone: b(pixels) for pooling, backbone in backbones(name).items()}
        return {pooling: 1000 * t / images for pooling, t in interleaved(sides, repetitions).items()}


def main() -> None:
    """Both shapes."""
    options = arguments(__doc__ or "")
    keep_freed_memory()
    claims = []
    for name in SHAPES:
        took = milliseconds(name, *((8, 7) if options.quick else (64, 15)))
        print(f"{name}: class token alone {took['cls']:.2f} ms per image")
        claims.append(Claim(f"{name}, depth against mean (ms per image)", took["depth"], took["mean"], "lower", 1.05))
    report(claims, options.json)


if __name__ == "__main__":
    main()
