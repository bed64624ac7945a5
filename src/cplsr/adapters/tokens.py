"""Tokens: a changed class token and registers, alone or over another adapter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from cplsr.adapters.attn_scale import AttnScale
from cplsr.adapters.base import Adapter, Shape, seeded
from cplsr.adapters.kinds import make_adapter
from cplsr.backbones.backbone import Backbone
from cplsr.backbones.block_points import BlockPoints, RelayedPoints
from cplsr.backbones.families import Block
from cplsr.declared import between
from cplsr.errors import InputError
from cplsr.settings.numbers import Seed


class Tokens(Adapter):
    """A vector added to the class token, zero at the start, and registers, where the first block begins.

    Registers are learnable tokens behind the class token, normal with std 1/√d at the start.

    Args:
        class_token: whether the class token learns.
        registers: how many there are.
        under: kind of an adapter that acts as well, after the tokens.
        under_options: its options.
        seed: of the start values.
    """

    kind: ClassVar[str] = "tokens"

    def __init__(
        self,
        shape: Shape,
        *,
        class_token: bool = True,
        registers: Annotated[int, between(0, 10_000)] = 0,
        under: str | None = None,
        under_options: dict[str, Any] | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__()
        if not class_token and not registers:
            raise InputError("class_token is false and registers is 0, so there is nothing to learn: give one of them")
        if registers and under == AttnScale.kind:
            raise InputError(f"{under} has factors for the backbone's own tokens only: give registers=0 over it")
        start = torch.randn(registers, shape.dim, generator=seeded(seed)) * shape.dim**-0.5
        self.offset = nn.Parameter(torch.zeros(shape.dim)) if class_token else None
        self.registers = nn.Parameter(start) if registers else None
        self.under: BlockPoints = BlockPoints() if under is None else make_adapter(under, shape, under_options or {})

    def own(self) -> list[nn.Parameter]:
        """The parameters of the tokens, without those of the adapter under them."""
        return [parameter for parameter in (self.offset, self.registers) if parameter is not None]

    def prepared(self, blocks: Sequence[Block]) -> BlockPoints:
        """The tokens, and what the adapter under them prepares."""
        return _Over(self, self.under.prepared(blocks))

    def change(self, tokens: Tensor) -> Tensor:
        """Tokens on their way into the first block."""
        first, rest = tokens[:, :1], tokens[:, 1:]
        if self.offset is not None:
            first = first + self.offset.to(tokens.dtype)
        if self.registers is not None:
            first = torch.cat([first, self.registers.to(tokens.dtype).expand(tokens.shape[0], -1, -1)], dim=1)
        return torch.cat([first, rest], dim=1)

    def fold(self, backbone: Backbone) -> None:
        """Add the vector to the class token of the weights; registers have no place there."""
        if self.registers is not None:
            raise InputError("registers have no equivalent in the backbone's weights and cannot be merged")
        if self.offset is not None:
            token = backbone.model.get_parameter("embeddings.cls_token")
            token.data = (token + self.offset).to(token.dtype).detach()
        if isinstance(self.under, Adapter):
            self.under.fold(backbone)


class _Over(RelayedPoints):
    """Tokens during one forward pass: they change what enters the first block, the adapter under them all else."""

    def __init__(self, tokens: Tokens, under: BlockPoints) -> None:
        super().__init__(under)
        self.tokens = tokens

    def enter(self, layer: int, tokens: Tensor) -> Tensor:
        return super().enter(layer, self.tokens.change(tokens) if layer == 0 else tokens)


def add_tokens(backbone: Backbone, **options: Any) -> Tokens:
    """Put new tokens on a backbone, over the adapter that it carries, if any, which stays on it as it is.

    The options are those of `Tokens`, but for the adapter under them; `remove_tokens` changes the backbone back.
    """
    under = backbone.adapter
    if isinstance(under, Adapter):
        options |= {"under": under.kind, "under_options": under.options}
    tokens = make_adapter(Tokens.kind, Shape.of(backbone), options)
    assert isinstance(tokens, Tokens)
    if under is not None:
        tokens.under = under
    backbone.adapter = tokens.to(backbone.device)
    return tokens


def remove_tokens(backbone: Backbone) -> Backbone:
    """Take tokens off a backbone, in place; the adapter under them stays on it."""
    if isinstance(backbone.adapter, Tokens):
        backbone.adapter = backbone.adapter.under if isinstance(backbone.adapter.under, Adapter) else None
    return backbone
