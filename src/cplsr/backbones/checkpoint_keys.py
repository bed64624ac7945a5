"""Key names of DINO and timm checkpoints, translated to those of transformers' modules.

The shapes in a checkpoint decide the architecture: nothing about it is asked of the user but the number of heads,
which no shape shows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cplsr.errors import InputError

_WRAPPERS = ("teacher", "student", "state_dict", "model")
_PREFIXES = ("module.", "backbone.", "encoder.", "_orig_mod.")
_LEFT_OUT = re.compile(
    r"^(head|head_dist|heads|fc|classifier|projector|predictor|pre_logits)\.|^mask_token$|\.mask_token$"
)
_BLOCK = re.compile(r"^blocks\.(\d+)\.")
_QKV = re.compile(r"blocks\.\d+\.attn\.qkv\.(weight|bias)")
_OUTSIDE_BLOCKS = {
    "cls_token": "embeddings.cls_token",
    "pos_embed": "embeddings.position_embeddings",
    "dist_token": "embeddings.distillation_token",
    "reg_token": "embeddings.register_tokens",
    "patch_embed.proj.weight": "embeddings.patch_embeddings.projection.weight",
    "patch_embed.proj.bias": "embeddings.patch_embeddings.projection.bias",
    "norm.weight": "layernorm.weight",
    "norm.bias": "layernorm.bias",
}
_INSIDE_BLOCKS = {
    "attn.proj.": "attention.o_proj.",
    "ls1.gamma": "layer_scale1.lambda1",
    "ls2.gamma": "layer_scale2.lambda1",
}
_NORMS_OF_VIT = {"norm1.": "layernorm_before.", "norm2.": "layernorm_after."}
"""Models with LayerScale call their norms as timm does."""
_DIMENSIONS = {
    "cls_token": 3,
    "pos_embed": 3,
    "reg_token": 3,
    "patch_embed.proj.weight": 4,
    "blocks.0.attn.qkv.weight": 2,
    "blocks.0.mlp.fc1.weight": 2,
}
"""Tensors that tell the architecture, and how many dimensions they have."""
LAYER_NORM_EPS = 1e-6


def unwrap(content: object) -> dict[str, Tensor]:
    """Find the tensors of the backbone in whatever a training script saved: nested containers, prefixed names."""
    while isinstance(content, Mapping) and not any(isinstance(value, Tensor) for value in content.values()):
        inner = next((content[name] for name in _WRAPPERS if name in content), None)
        if inner is None:
            raise InputError(f"no tensors in the checkpoint; its entries are {_shown(map(str, content))}")
        content = inner
    if not isinstance(content, Mapping):
        raise InputError(f"the checkpoint holds a {type(content).__name__}; a dictionary of tensors was wanted")
    tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
    while prefix := next((p for p in _PREFIXES if any(name.startswith(p) for name in tensors)), None):
        tensors = {name.removeprefix(prefix): value for name, value in tensors.items()}
    return {name: value for name, value in tensors.items() if not _LEFT_OUT.search(name)}


def read_config(tensors: Mapping[str, Tensor], heads: int | None = None) -> Any:
    """The transformers configuration that the shapes describe; heads, which no shape shows, are by default 64 wide."""
    from transformers import AutoConfig

    if missing := [name for name in _DIMENSIONS if name not in tensors and name != "reg_token"]:
        raise InputError(
            f"the checkpoint lacks {_shown(missing)}; it has {_shown(tensors)}: a vision transformer in the key names "
            "of timm or DINO was wanted"
        )
    _check_shapes(tensors)
    dim, hidden = tensors["cls_token"].shape[-1], tensors["blocks.0.mlp.fc1.weight"].shape[0]
    layer_scale, distilled = "blocks.0.ls1.gamma" in tensors, "dist_token" in tensors
    registers = tensors["reg_token"].shape[1] if "reg_token" in tensors else 0
    patches = tensors["pos_embed"].shape[1]
    if math.isqrt(patches) ** 2 != patches:
        patches -= 2 if distilled else 1
    grid = math.isqrt(patches)
    if grid * grid != patches:
        raise InputError(f"pos_embed has {tensors['pos_embed'].shape[1]} positions, which is no square of patches")
    patch_size = tensors["patch_embed.proj.weight"].shape[-1]
    if heads is None and dim % 64:
        raise InputError(
            f"the checkpoint is {dim} wide, not a multiple of 64, so its heads cannot be told: give --heads"
        )
    described = {
        "hidden_size": dim,
        "num_hidden_layers": len(_blocks(tensors)),
        "num_attention_heads": heads or dim // 64,
        "patch_size": patch_size,
        "image_size": grid * patch_size,
        "layer_norm_eps": LAYER_NORM_EPS,
        "qkv_bias": "blocks.0.attn.qkv.bias" in tensors,
    }
    if not layer_scale:
        return AutoConfig.for_model("deit" if distilled else "vit", **described, intermediate_size=hidden)
    if hidden % dim:
        raise InputError(f"an MLP {hidden} wide over tokens {dim} wide is not a whole multiple; not supported")
    described |= {"mlp_ratio": hidden // dim, "use_mask_token": False}
    if registers:
        return AutoConfig.for_model("dinov2_with_registers", **described, num_register_tokens=registers)
    return AutoConfig.for_model("dinov2", **described)


def _blocks(tensors: Mapping[str, Tensor]) -> set[int]:
    return {int(match[1]) for name in tensors if (match := _BLOCK.match(name))}


def _check_shapes(tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors that were cut or never belonged to a vision transformer, before anything is made of them."""
    for name, dimensions in _DIMENSIONS.items():
        if name in tensors and (tensors[name].ndim != dimensions or not tensors[name].numel()):
            raise InputError(
                f"the checkpoint's {name} has the shape {list(tensors[name].shape)}; {dimensions} dimensions were "
                "wanted: is the file complete?"
            )
    width = 3 * tensors["cls_token"].shape[-1]
    for name, tensor in tensors.items():
        if _QKV.fullmatch(name) and tensor.shape[:1] != (width,):
            raise InputError(
                f"the checkpoint's {name} has the shape {list(tensor.shape)}; {width} rows, for query, key and value "
                "of every token, were wanted: is the file complete?"
            )
    blocks = _blocks(tensors)
    if blocks != set(range(len(blocks))):
        raise InputError(f"the checkpoint has blocks {_shown(blocks)}: some are missing; is the file complete?")


def translate(tensors: Mapping[str, Tensor], config: Any) -> dict[str, Tensor]:
    """Rename every tensor to its place in transformers' model, cutting the joint q, k, v projection in three."""
    plain = config.model_type in ("vit", "deit")
    inside = _INSIDE_BLOCKS | (_NORMS_OF_VIT if plain else {})
    translated: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        match = _BLOCK.match(name)
        if match is None:
            translated[_OUTSIDE_BLOCKS.get(name, name)] = tensor
            continue
        block, rest = f"{'layers' if plain else 'encoder.layer'}.{match[1]}.", name[match.end() :]
        if joint := _QKV.fullmatch(name):
            for part, piece in zip("qkv", tensor.chunk(3), strict=True):
                translated[f"{block}attention.{part}_proj.{joint[1]}"] = piece
        else:
            translated[block + _renamed(rest, inside)] = tensor
    positions = translated["embeddings.position_embeddings"]
    if positions.shape[1] == (config.image_size // config.patch_size) ** 2:
        # Where the class token has no position (deit3, registers in timm) it gets a zero one: the same sum.
        zeros = torch.zeros(1, 2 if config.model_type == "deit" else 1, config.hidden_size, dtype=positions.dtype)
        translated["embeddings.position_embeddings"] = torch.cat([zeros, positions], dim=1)
    return translated


def _renamed(name: str, starts: Mapping[str, str]) -> str:
    """A name inside of a block with its start replaced, if it is one of those given."""
    start = next((start for start in starts if name.startswith(start)), "")
    return starts.get(start, "") + name.removeprefix(start)


def _shown(names: object, most: int = 12) -> str:
    listed = sorted(str(name) for name in names)  # type: ignore[attr-defined]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more if listed else "nothing"


def to_checkpoint_keys(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename tensors from transformers' names to those of timm and DINO, as `translate` reversed."""
    outside = {new: old for old, new in _OUTSIDE_BLOCKS.items()}
    inside = {new: old for old, new in (_INSIDE_BLOCKS | _NORMS_OF_VIT).items()}
    named: dict[str, Tensor] = {}
    for name, tensor in state.items():
        match = re.match(r"(?:layers|encoder\.layer)\.(\d+)\.", name)
        if match is None:
            if name in outside:
                named[outside[name]] = tensor
            continue
        block, rest = f"blocks.{match[1]}.", name[match.end() :]
        if rest.startswith("attention.q_proj."):
            parts = [state[name.replace("q_proj", f"{part}_proj")] for part in "qkv"]
            named[block + rest.replace("attention.q_proj", "attn.qkv")] = torch.cat(parts)
        elif not rest.startswith(("attention.k_proj.", "attention.v_proj.")):
            named[block + _renamed(rest, inside)] = tensor
    return named
