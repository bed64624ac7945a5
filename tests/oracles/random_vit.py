"""Random vision transformers: as checkpoints in timm's key names, and as transformers configurations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def random_checkpoint(
    *, dim: int, layers: int, patch: int, image: int, hidden: int | None = None, seed: int = 0, qkv_bias: bool = True
) -> dict[str, Tensor]:
    """Weights large enough that every part leaves a trace in the output."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, std: float) -> Tensor:
        return torch.randn(*shape, generator=generator) * std

    hidden = hidden or 4 * dim
    tensors = {
        "cls_token": normal(1, 1, dim, std=0.5),
        "pos_embed": normal(1, (image // patch) ** 2 + 1, dim, std=0.5),
        "patch_embed.proj.weight": normal(dim, 3, patch, patch, std=(3 * patch * patch) ** -0.5),
        "patch_embed.proj.bias": normal(dim, std=0.2),
        "norm.weight": 1 + normal(dim, std=0.2),
        "norm.bias": normal(dim, std=0.2),
    }
    for layer in range(layers):
        block = {
            "norm1.weight": 1 + normal(dim, std=0.2),
            "norm1.bias": normal(dim, std=0.2),
            "attn.qkv.weight": normal(3 * dim, dim, std=1.5 * dim**-0.5),
            "attn.qkv.bias": normal(3 * dim, std=0.3),
            "attn.proj.weight": normal(dim, dim, std=dim**-0.5),
            "attn.proj.bias": normal(dim, std=0.2),
            "norm2.weight": 1 + normal(dim, std=0.2),
            "norm2.bias": normal(dim, std=0.2),
            "mlp.fc1.weight": normal(hidden, dim, std=dim**-0.5),
            "mlp.fc1.bias": normal(hidden, std=0.2),
            "mlp.fc2.weight": normal(dim, hidden, std=hidden**-0.5),
            "mlp.fc2.bias": normal(dim, std=0.2),
        }
        if not qkv_bias:
            del block["attn.qkv.bias"]
        tensors |= {f"blocks.{layer}.{name}": tensor for name, tensor in block.items()}
    return tensors


def tiny_vit(seed: int = 0) -> Any:
    """A transformers model of 2 layers at 16 px, 16 wide: small enough to embed many images in a test."""
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=16,
        patch_size=8,
        initializer_range=0.3,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ViTModel(config, add_pooling_layer=False)


def _small(name: str, **more: Any) -> Callable[[], Any]:
    def make() -> Any:
        import transformers

        shared = {
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 32,
            "patch_size": 8,
        }
        return getattr(transformers, name)(**shared, **more)

    return make


FAMILY_CONFIGS: dict[str, Callable[[], Any]] = {
    "vit": _small("ViTConfig", intermediate_size=128),
    "deit": _small("DeiTConfig", intermediate_size=128),
    "vit_msn": _small("ViTMSNConfig", intermediate_size=128),
    "dinov2": _small("Dinov2Config", mlp_ratio=2),
    "dinov2_swiglu": _small("Dinov2Config", mlp_ratio=2, use_swiglu_ffn=True),
    "dinov2_registers": _small("Dinov2WithRegistersConfig", mlp_ratio=2, num_register_tokens=4),
    "dinov3": _small("DINOv3ViTConfig", intermediate_size=128, num_register_tokens=4),
    "dinov3_gated": _small("DINOv3ViTConfig", intermediate_size=128, use_gated_mlp=True),
}
