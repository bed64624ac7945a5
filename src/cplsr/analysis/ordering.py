"""Theorem 1 and Corollary 1 as checks that can be run: what prompts and C can do to the order of tokens.

Within one attention layer and for given image tokens, a row of attention says in which order a token looks at the
others. Prompts add columns to the row and cannot change the order among the old ones; C changes it freely.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Queries = Float[Tensor, "*batch rows head_dim"]
Keys = Float[Tensor, "*batch tokens head_dim"]


def attention(queries: Queries, keys: Keys, C: Float[Tensor, "head_dim head_dim"] | None = None) -> Tensor:
    """softmax(Q C Kᵀ / √d_k), the factor inside the softmax where it belongs (Eq. 1; with C, Eq. 3)."""
    projected = queries if C is None else queries @ C
    return (projected @ keys.mT / math.sqrt(queries.shape[-1])).softmax(dim=-1)


def with_prompts(queries: Queries, keys: Keys, prompt_keys: Float[Tensor, "*batch prompts head_dim"]) -> Tensor:
    """The attention of the image tokens when prompts stand behind them: blocks (I,I) and (I,P) of Eq. 2, softmaxed."""
    return attention(queries, torch.cat([keys, prompt_keys], dim=-2))


def swapped_pairs(
    before: Float[Tensor, "*rows tokens"], after: Float[Tensor, "*rows tokens"]
) -> Float[Tensor, "*rows"]:
    """Share of the token pairs in each row whose order is the opposite of what it was: 0 the same, 1 reversed."""
    old = _order(before)
    new = _order(after)
    tokens = before.shape[-1]
    return (old * new < 0).sum(dim=(-1, -2)).to(before.dtype) / (tokens * (tokens - 1))


def prompts_keep_order(
    queries: Queries, keys: Keys, prompt_keys: Float[Tensor, "*batch prompts head_dim"]
) -> Bool[Tensor, "*batch rows"]:
    """Theorem 1, second half: with prompts no two image tokens change places in any row."""
    tokens = keys.shape[-2]
    return swapped_pairs(attention(queries, keys), with_prompts(queries, keys, prompt_keys)[..., :tokens]) == 0


def negative_identity_reverses(queries: Queries, keys: Keys) -> Bool[Tensor, "*batch rows"]:
    """Theorem 1, first half, by its own example: C = −I turns the order of every row around."""
    C = -torch.eye(queries.shape[-1], dtype=queries.dtype, device=queries.device)
    return swapped_pairs(attention(queries, keys), attention(queries, keys, C)) == 1


def mass_on_prompts(
    queries: Queries, keys: Keys, prompt_keys: Float[Tensor, "*batch prompts head_dim"]
) -> Float[Tensor, "*batch rows"]:
    """Corollary 1: the probability that each row gives to the prompts, columns n < i ≤ n + p.

    The image tokens share what is left in the old proportions: their attention is (1 − mass) times the old one.
    """
    return with_prompts(queries, keys, prompt_keys)[..., keys.shape[-2] :].sum(dim=-1)


def _order(rows: Float[Tensor, "*rows tokens"]) -> Float[Tensor, "*rows tokens tokens"]:
    """Sign of row_j − row_t for every pair."""
    return (rows.unsqueeze(-1) - rows.unsqueeze(-2)).sign()
