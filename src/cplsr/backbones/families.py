"""Where each family of transformers' vision models keeps its parts, behind one set of names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from cplsr.errors import InputError


@dataclass(frozen=True)
class Family:
    """Paths to the parts of one family of models, and whether it rotates queries and keys in place of positions."""

    blocks: str
    final_norm: str
    norm_before: str
    norm_after: str
    rotary: bool = False


_VIT = Family("layers", "layernorm", "layernorm_before", "layernorm_after")
_DINOV2 = Family("encoder.layer", "layernorm", "norm1", "norm2")
_DINOV3 = Family("model.layer", "norm", "norm1", "norm2", rotary=True)

FAMILIES = {
    "vit": _VIT,
    "deit": _VIT,
    "vit_msn": _VIT,
    "dinov2": _DINOV2,
    "dinov2_with_registers": _DINOV2,
    "dinov3_vit": _DINOV3,
}


@dataclass(frozen=True)
class Block:
    """The parts of one transformer block; the scales are `None` in families without LayerScale."""

    norm_before: nn.Module
    attention: nn.Module
    attention_scale: nn.Module | None
    norm_after: nn.Module
    mlp: nn.Module
    mlp_scale: nn.Module | None


def family_of(config: Any, source: str) -> Family:
    """The family of a transformers configuration, or an error that lists the known ones."""
    try:
        return FAMILIES[config.model_type]
    except KeyError:
        known = ", ".join(sorted(FAMILIES))
        raise InputError(
            f"{source!r} is a model of type {config.model_type!r}; the backbone must be a plain vision transformer "
            f"of one of these types: {known}"
        ) from None


def blocks_of(model: nn.Module, family: Family) -> list[Block]:
    """The blocks of a model, first to last."""
    return [
        Block(
            norm_before=block.get_submodule(family.norm_before),
            attention=block.get_submodule("attention"),
            attention_scale=getattr(block, "layer_scale1", None),
            norm_after=block.get_submodule(family.norm_after),
            mlp=block.get_submodule("mlp"),
            mlp_scale=getattr(block, "layer_scale2", None),
        )
        for block in model.get_submodule(family.blocks).children()
    ]


def prefix_tokens(model: nn.Module) -> int:
    """How many tokens stand before the patches: the class token, then distillation or register tokens."""
    embeddings = model.get_submodule("embeddings")
    registers = getattr(embeddings, "register_tokens", None)
    distillation = getattr(embeddings, "distillation_token", None)
    return 1 + (0 if registers is None else registers.shape[1]) + (0 if distillation is None else 1)


def mlp_output(mlp: nn.Module) -> nn.Linear:
    """The last linear layer of an MLP, plain or gated."""
    for name in ("fc2", "down_proj"):
        layer = getattr(mlp, name, None)
        if isinstance(layer, nn.Linear):
            return layer
    raise TypeError(f"{type(mlp).__name__} has neither fc2 nor down_proj")
