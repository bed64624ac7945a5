"""From the tokens after a block to the numbers of an embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cplsr.errors import InputError
from cplsr.settings.backbone import Pooling


def pooled_layers(pooling: str, layers: Sequence[int] | None, count: int) -> tuple[int, ...]:
    """Return the numbers of the blocks that an embedding is read from: the last, or with `depth` all or the chosen."""
    if pooling not in get_args(Pooling):
        raise InputError(f"pooling {pooling!r} is not known: give cls, mean or depth")
    if pooling == "depth":
        return chosen_layers(layers, count)
    if layers is not None:
        raise InputError(f"layers {list(layers)} were given with pooling {pooling}: only depth reads other blocks")
    return (count - 1,)


def chosen_layers(layers: Sequence[int] | None, count: int) -> tuple[int, ...]:
    """Return the numbers of some of `count` blocks, each once, first to last.

    They are given from 0, or as negative numbers from the end; `None` means all.

    Raises:
        InputError: a number is not that of a block, or there is none.

    Example:
        >>> chosen_layers([-1, 0], 12)
        (0, 11)
    """
    if layers is None:
        return tuple(range(count))
    if not layers:
        raise InputError(f"layers is empty: give numbers from 0 to {count - 1}, or leave it out for all")
    if wrong := [layer for layer in layers if not -count <= layer < count]:
        raise InputError(f"layers {wrong} do not exist; the backbone has {count}, counted from 0")
    return tuple(sorted({layer % count for layer in layers}))


def pool(
    tokens: Float[Tensor, "batch tokens dim"], norm: nn.Module, patches: int, pooling: str
) -> Float[Tensor, "batch numbers"]:
    """Turn the tokens after one block into its share of the embedding, in float32 at least.

    `cls` gives the normed class token, `mean` the mean of the normed patch tokens, `depth` both, each scaled to length
    one. The class token stands first, the patch tokens last; `norm` is the final norm of the backbone. (Of several ways
    to compute that mean, norming all patches first is the fastest on a CPU.)
    """
    if pooling == "cls":
        return _wide(norm(tokens[:, 0]))
    if pooling == "mean":
        return _wide(norm(tokens[:, -patches:]).mean(dim=1))
    normed = norm(tokens)
    parts = (normed[:, 0], normed[:, -patches:].mean(dim=1))
    return torch.cat([torch.nn.functional.normalize(_wide(part), dim=-1) for part in parts], dim=-1)


def last_class_token(embeddings: Float[Tensor, "*batch numbers"], dim: int) -> Float[Tensor, "*batch dim"]:
    """The unit class token after the last block that was read, out of depth embeddings of tokens `dim` wide."""
    return embeddings[..., -2 * dim : -dim]


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
