"""A vision transformer written out as plain formulas over the tensors of a checkpoint in timm's key names.

Nothing of the package is used, nothing is fast: it is what the package is compared with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-6) -> Tensor:
    centered = x - x.mean(-1, keepdim=True)
    variance = (centered**2).mean(-1, keepdim=True)
    return centered / torch.sqrt(variance + eps) * weight + bias


def gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def patches(images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Cut into squares, row by row, each a product with the flattened kernel."""
    size = weight.shape[-1]
    batch, _, height, width = images.shape
    rows = []
    for top in range(0, height, size):
        for left in range(0, width, size):
            square = images[:, :, top : top + size, left : left + size].reshape(batch, -1)
            rows.append(square @ weight.reshape(weight.shape[0], -1).T + bias)
    return torch.stack(rows, dim=1)


def positions(pos_embed: Tensor, grid: int, antialias: bool) -> Tensor:
    old = math.isqrt(pos_embed.shape[1] - 1)
    if old == grid:
        return pos_embed
    plane = pos_embed[:, 1:].reshape(1, old, old, -1).permute(0, 3, 1, 2)
    plane = torch.nn.functional.interpolate(
        plane, size=(grid, grid), mode="bicubic", align_corners=False, antialias=antialias
    )
    return torch.cat([pos_embed[:, :1], plane.permute(0, 2, 3, 1).reshape(1, grid * grid, -1)], dim=1)


def attention(
    x: Tensor,
    qkv: Tensor,
    bias: Tensor,
    proj: Tensor,
    proj_bias: Tensor,
    heads: int,
    C: Tensor | None,
    D: Tensor | None,
) -> Tensor:
    """softmax(Q C Kᵀ / √d_k) V D head by head (Eq. 3 without D; Eq. 1 without C), W of shape (dim, d_k) as there."""
    dim = x.shape[-1]
    d_k = dim // heads
    W_q, W_k, W_v = (qkv[i * dim : (i + 1) * dim].T for i in range(3))
    b_q, b_k, b_v = (bias[i * dim : (i + 1) * dim] for i in range(3))
    outputs = []
    for head in range(heads):
        part = slice(head * d_k, (head + 1) * d_k)
        Q, K, V = x @ W_q[:, part] + b_q[part], x @ W_k[:, part] + b_k[part], x @ W_v[:, part] + b_v[part]
        if C is not None:
            Q = Q @ C[head]
        if D is not None:
            V = V @ D[head]
        weights = torch.exp(Q @ K.mT / math.sqrt(d_k))
        outputs.append((weights / weights.sum(-1, keepdim=True)) @ V)
    return torch.cat(outputs, dim=-1) @ proj.T + proj_bias


def vit(
    t: Mapping[str, Tensor],
    images: Tensor,
    heads: int,
    *,
    pooling: str = "cls",
    antialias: bool = True,
    C: list[Tensor] | None = None,
    D: list[Tensor] | None = None,
) -> Tensor:
    """Embeddings of a batch of normalized images."""
    x = patches(images, t["patch_embed.proj.weight"], t["patch_embed.proj.bias"])
    grid = images.shape[-1] // t["patch_embed.proj.weight"].shape[-1]
    x = torch.cat([t["cls_token"].expand(len(x), -1, -1), x], dim=1) + positions(t["pos_embed"], grid, antialias)
    layer = 0
    while f"blocks.{layer}.norm1.weight" in t:
        b = {name.split(".", 2)[2]: tensor for name, tensor in t.items() if name.startswith(f"blocks.{layer}.")}
        bias = b.get("attn.qkv.bias", torch.zeros(3 * x.shape[-1], dtype=x.dtype))
        y = layer_norm(x, b["norm1.weight"], b["norm1.bias"])
        factors = (None if each is None else each[layer] for each in (C, D))
        x = x + attention(y, b["attn.qkv.weight"], bias, b["attn.proj.weight"], b["attn.proj.bias"], heads, *factors)
        y = layer_norm(x, b["norm2.weight"], b["norm2.bias"])
        x = x + gelu(y @ b["mlp.fc1.weight"].T + b["mlp.fc1.bias"]) @ b["mlp.fc2.weight"].T + b["mlp.fc2.bias"]
        layer += 1
    x = layer_norm(x, t["norm.weight"], t["norm.bias"])
    return x[:, 0] if pooling == "cls" else x[:, 1:].mean(1)


def literal_network(tensors, images, *, enter=None, scores=None, attention_vector=None, mlp_vector=None):
    """The whole ViT of 2 heads written out, with the places where the adapters act."""
    patches = torch.nn.functional.conv2d(
        images, tensors["patch_embed.proj.weight"], tensors["patch_embed.proj.bias"], stride=8
    )
    x = torch.cat([tensors["cls_token"].expand(len(images), -1, -1), patches.flatten(2).mT], 1) + tensors["pos_embed"]
    for layer in range(2):
        b = {name.split(".", 2)[2]: t for name, t in tensors.items() if name.startswith(f"blocks.{layer}.")}
        x = x if enter is None else enter(layer, x)
        y = layer_norm(x, b["norm1.weight"], b["norm1.bias"])
        q, k, v = (y @ b["attn.qkv.weight"].T + b["attn.qkv.bias"]).chunk(3, dim=-1)
        heads = []
        for h in range(2):
            part = slice(32 * h, 32 * h + 32)
            m = q[..., part] @ k[..., part].mT / 32**0.5
            m = m if scores is None else scores(layer, h, m)
            heads.append(m.softmax(-1) @ v[..., part])
        y = torch.cat(heads, -1) @ b["attn.proj.weight"].T + b["attn.proj.bias"]
        x = x + y + (0 if attention_vector is None else attention_vector(layer))
        y = gelu(layer_norm(x, b["norm2.weight"], b["norm2.bias"]) @ b["mlp.fc1.weight"].T + b["mlp.fc1.bias"])
        x = x + y @ b["mlp.fc2.weight"].T + b["mlp.fc2.bias"] + (0 if mlp_vector is None else mlp_vector(layer))
    return layer_norm(x, tensors["norm.weight"], tensors["norm.bias"])
