"""The places inside a transformer block where an adapter may act."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from cplsr.backbones.families import Block


class BlockPoints(nn.Module):
    """Five places in a block, in the order a token meets them; as they stand here they change nothing.

    An adapter overrides the ones it needs. `layer` counts blocks from 0. In the last block only the class token may
    be asked for: then `queries` in `attend`, and the tokens in the two branches, are the first rows alone.
    """

    def prepared(self, blocks: Sequence[Block]) -> BlockPoints:
        """The points to use for one forward pass, in which no parameter changes: a place to compute things once."""
        return self

    def enter(self, layer: int, tokens: Float[Tensor, "batch tokens dim"]) -> Float[Tensor, "batch more_tokens dim"]:
        """Tokens as they enter the block, before its first norm. The class token stays first, the patches last."""
        return tokens

    def query(
        self, layer: int, projection: nn.Module, x: Float[Tensor, "batch rows dim"]
    ) -> Float[Tensor, "batch rows dim"]:
        """Query of every normed token, all heads side by side."""
        return projection(x)

    def attend(
        self,
        layer: int,
        queries: Float[Tensor, "batch heads rows head_dim"],
        keys: Float[Tensor, "batch heads tokens head_dim"],
        values: Float[Tensor, "batch heads tokens value_dim"],
    ) -> Float[Tensor, "batch heads rows value_dim"]:
        """softmax(Q Kᵀ / √d_k) V, Eq. 1."""
        return scaled_dot_product_attention(queries, keys, values)

    def attention_branch(self, layer: int, y: Float[Tensor, "batch rows dim"]) -> Float[Tensor, "batch rows dim"]:
        """Output of the attention branch, before LayerScale and the skip connection."""
        return y

    def mlp_branch(self, layer: int, y: Float[Tensor, "batch rows dim"]) -> Float[Tensor, "batch rows dim"]:
        """Output of the MLP branch, before LayerScale and the skip connection."""
        return y
