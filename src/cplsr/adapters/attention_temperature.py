"""The temperature of attention: AttnTemp's switch at test time (Zou et al., NeurIPS 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from torch import Tensor

from cplsr.adapters.base import Adapter, Shape
from cplsr.adapters.kinds import default_options, make_adapter
from cplsr.backbones.backbone import Backbone
from cplsr.backbones.block_points import BlockPoints, RelayedPoints
from cplsr.backbones.families import Block
from cplsr.declared import between
from cplsr.settings.numbers import Seed

Blocks = Annotated[int, between(0, 10_000)]


class AttentionTemperature(Adapter):
    """softmax(τ Q Kᵀ / √d_k) V in the first blocks, and in the last ones no attention to the class token.

    It has no parameters of its own: by itself it changes how a frozen backbone attends, and τ is the coalescent
    projection C = τ I. It may carry an adapter that learns, whose points it passes on; `--method attn_temp` trains and
    saves it so, and whatever loads that attends as the method does at test time.

    The defaults are those AttnTemp was published with; its released code does not have this part. That code counts
    blocks from 0, and so "from block 5 on" is read here: the first five blocks attend to the class token.

    Args:
        temperature: τ; with 0 every token attends to all alike.
        blocks: how many blocks, from the first, have it.
        class_token_blocks: how many blocks, from the first, attend to the class token; in the others no token does,
            nor itself. `None`: all.
        adapter: kind of the adapter that it carries; `None`: none.
        adapter_options: of that adapter.
        seed: of that adapter's start values.
    """

    kind: ClassVar[str] = "attention_temperature"

    def __init__(
        self,
        shape: Shape,
        *,
        temperature: Annotated[float, between(0, 1000)] = 0.3,
        blocks: Blocks = 2,
        class_token_blocks: Blocks | None = 5,
        adapter: str | None = None,
        adapter_options: dict[str, Any] | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__()
        self.temperatures = [temperature if layer < blocks else 1.0 for layer in range(shape.layers)]
        self.attending = shape.layers if class_token_blocks is None else min(class_token_blocks, shape.layers)
        self.carried: Adapter | None = None
        if adapter is not None:
            start = {"seed": seed} if "seed" in default_options(adapter) else {}
            self.carried = make_adapter(adapter, shape, {**start, **(adapter_options or {})})

    def prepared(self, blocks: Sequence[Block]) -> BlockPoints:
        """The carried adapter's points, or those that change nothing, at these temperatures."""
        points = BlockPoints() if self.carried is None else self.carried.prepared(blocks)
        return Tempered(points, self.temperatures, self.attending)

    def fold(self, backbone: Backbone) -> None:
        """W_q ← τ W_q and b_q ← τ b_q, after the carried adapter; only where all blocks attend to the class token."""
        if self.attending < backbone.layers:
            super().fold(backbone)
        if self.carried is not None:
            self.carried.fold(backbone)
        for block, temperature in zip(backbone.blocks, self.temperatures, strict=True):
            query: Any = block.attention.q_proj
            for tensor in filter(lambda tensor: tensor is not None, (query.weight, query.bias)):
                tensor.data.mul_(temperature)


class Tempered(RelayedPoints):
    """Other points, with the logits of attention multiplied and no attention to the class token after some blocks."""

    def __init__(self, points: BlockPoints, temperatures: Sequence[float], attending: int) -> None:
        super().__init__(points)
        self.temperatures, self.attending = temperatures, attending

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """As the other points do, which take logits linear in the queries, with τ Q and without the first key."""
        if layer >= self.attending:
            keys, values = keys[..., 1:, :], values[..., 1:, :]
        return super().attend(layer, queries * self.temperatures[layer], keys, values)


def at_temperatures(points: BlockPoints, temperatures: Sequence[float]) -> Tempered:
    """The points at these temperatures, with attention to the class token, instead of a switch they may have."""
    return Tempered(points.points if isinstance(points, Tempered) else points, temperatures, len(temperatures))
