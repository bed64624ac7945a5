"""The steps of a transformer block at which an adapter may act."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from cplsr.backbones.families import Block


class BlockPoints(nn.Module):
    """The six steps of a transformer block that an adapter may change, in the order a token meets them.

    As they stand here they change nothing; an adapter overrides those it needs. `layer` is the number of the block,
    from 0. In the last block only the class token may be needed: then `queries` in `attend`, and the tokens in the two
    branches, are the first rows alone.
    """

    def prepared(self, blocks: Sequence[Block]) -> BlockPoints:
        """Return what to use for one forward pass, in which no parameter changes: things can be computed once."""
        return self

    def enter(self, layer: int, tokens: Float[Tensor, "batch tokens dim"]) -> Float[Tensor, "batch more_tokens dim"]:
        """Change the tokens that enter the block, before its first norm; the class token stays first, patches last."""
        return tokens

    def query(
        self, layer: int, projection: nn.Module, x: Float[Tensor, "batch rows dim"]
    ) -> Float[Tensor, "batch rows dim"]:
        """Compute the query of every normed token, all heads side by side."""
        return projection(x)

    def value(
        self, layer: int, projection: nn.Module, x: Float[Tensor, "batch tokens dim"]
    ) -> Float[Tensor, "batch tokens dim"]:
        """Compute the value of every normed token, all heads side by side."""
        return projection(x)

    def attend(
        self,
        layer: int,
        queries: Float[Tensor, "batch heads rows head_dim"],
        keys: Float[Tensor, "batch heads tokens head_dim"],
        values: Float[Tensor, "batch heads tokens value_dim"],
    ) -> Float[Tensor, "batch heads rows value_dim"]:
        """Attend: softmax(Q Kᵀ / √d_k) V, Eq. 1."""
        return scaled_dot_product_attention(queries, keys, values)

    def attention_branch(self, layer: int, y: Float[Tensor, "batch rows dim"]) -> Float[Tensor, "batch rows dim"]:
        """Change the output of the attention branch, before LayerScale and the skip connection."""
        return y

    def mlp_branch(self, layer: int, y: Float[Tensor, "batch rows dim"]) -> Float[Tensor, "batch rows dim"]:
        """Change the output of the MLP branch, before LayerScale and the skip connection."""
        return y


class RelayedPoints(BlockPoints):
    """Other points as they are, during one forward pass; who makes something of its own of some overrides those."""

    def __init__(self, points: BlockPoints) -> None:
        super().__init__()
        self.points = points

    def enter(self, layer: int, tokens: Tensor) -> Tensor:
        """As the other points do."""
        return self.points.enter(layer, tokens)

    def query(self, layer: int, projection: nn.Module, x: Tensor) -> Tensor:
        """As the other points do."""
        return self.points.query(layer, projection, x)

    def value(self, layer: int, projection: nn.Module, x: Tensor) -> Tensor:
        """As the other points do."""
        return self.points.value(layer, projection, x)

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """As the other points do."""
        return self.points.attend(layer, queries, keys, values)

    def attention_branch(self, layer: int, y: Tensor) -> Tensor:
        """As the other points do."""
        return self.points.attention_branch(layer, y)

    def mlp_branch(self, layer: int, y: Tensor) -> Tensor:
        """As the other points do."""
        return self.points.mlp_branch(layer, y)


def attention_map(
    points: BlockPoints, layer: int, queries: Tensor, keys: Tensor
) -> Float[Tensor, "batch heads rows tokens"]:
    """The attention itself, whatever the points do to it: what they make of the unit vectors."""
    unit_vectors = torch.eye(keys.shape[-2], dtype=keys.dtype, device=keys.device).expand(*keys.shape[:2], -1, -1)
    return points.attend(layer, queries, keys, unit_vectors)
