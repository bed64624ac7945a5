"""The coalescent projection (CP)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cplsr.adapters.base import Adapter, Shape, seeded
from cplsr.adapters.query_projection import QueryProjection, fold
from cplsr.backbones.backbone import Backbone
from cplsr.backbones.block_points import BlockPoints, RelayedPoints
from cplsr.backbones.families import Block
from cplsr.backbones.pooling import chosen_layers
from cplsr.declared import between
from cplsr.errors import InputError
from cplsr.settings.numbers import Seed

Matrices = Float[Tensor, "heads head_dim head_dim"]


class Coalescent(Adapter):
    """softmax(Q C Kᵀ / √d_k) V with a learnable C between query and key (Eq. 3).

    C is a right factor of the query projection, so it is applied to the weights or to the tokens, whichever is cheaper
    (`query_projection`), and can be folded into the weights. In backbones with rotary positions it acts on the rotated
    queries and cannot be folded. With `values` the values have a factor of the same kind, softmax(Q C Kᵀ / √d_k) V D.

    Args:
        sharing: `per_head`, one d_k x d_k matrix for each head of a layer, or `shared`, one for all its heads.
        constraint: `free`, or `mahalanobis`: C = P Pᵀ with P lower triangular, a positive semi-definite bilinear form
            (supplement, "CP vs. AttnScale"). It is not the distance d(q, k)² = (q − k)ᵀ C (q − k) itself: −½ d² holds
            −½ kᵀ C k beside qᵀ C k, and softmax over k does not remove that term.
        init: `identity`, so that training starts at the frozen model, or `near_identity`, where the entries beside the
            diagonal are normal with standard deviation 0.02.
        rank: C = I + U Vᵀ with U and V of so many columns, U normal with standard deviation 1/√d_k and V zero at the
            start; `None`: all of C learns. A free C that starts at the identity only.
        layers: the blocks that get a C; default all.
        values: also a learnable D for the values of every head that has a C, starting at the identity and always free.
        seed: of the start values of `near_identity` and of U.
    """

    kind: ClassVar[str] = "coalescent"

    def __init__(
        self,
        shape: Shape,
        *,
        sharing: Literal["per_head", "shared"] = "per_head",
        constraint: Literal["free", "mahalanobis"] = "free",
        init: Literal["identity", "near_identity"] = "identity",
        rank: Annotated[int, between(1, 10_000)] | None = None,
        layers: Sequence[int] | None = None,
        values: bool = False,
        seed: Seed = 0,
    ) -> None:
        super().__init__()
        if rank is not None and (constraint, init) != ("free", "identity"):
            raise InputError(
                f"rank is {rank}, with constraint {constraint!r} and init {init!r}: I + U Vᵀ is free and starts at the "
                "identity, leave these out"
            )
        self.heads, self.rotary, self.rank = shape.heads, shape.rotary, rank
        self.mahalanobis = constraint == "mahalanobis"
        heads = 1 if sharing == "shared" else shape.heads
        generator = seeded(seed)
        self.C = nn.ParameterDict(
            {
                str(layer): nn.Parameter(_start(heads, shape.head_dim, generator, init, rank))
                for layer in chosen_layers(layers, shape.layers)
            }
        )
        self.D = nn.ParameterDict(
            {layer: nn.Parameter(_start(heads, shape.head_dim, generator)) for layer in self.C if values}
        )

    def projection(self, layer: int) -> Matrices:
        """C of a layer that has one, as attention uses it, (heads or 1, d_k, d_k)."""
        stored = self.C[str(layer)]
        if self.rank is not None:
            U, V = stored
            return torch.eye(U.shape[1], dtype=U.dtype, device=U.device) + U @ V.transpose(1, 2)
        if not self.mahalanobis:
            return stored
        P = stored.tril()
        return P @ P.transpose(1, 2)

    def projections(self) -> dict[int, Tensor]:
        """Every C by its layer."""
        return {int(layer): self.projection(int(layer)) for layer in self.C}

    def symmetry_penalty(self) -> Float[Tensor, ""]:
        """Σ ‖C − Cᵀ‖²_F over heads and layers, the regularizer of the supplement before its factor λ."""
        return torch.stack([symmetry_penalty(C) for C in self.projections().values()]).sum()

    @torch.no_grad()
    def bound(self, radius: float) -> None:
        """Bring every C with ‖C − I‖_F above `radius` back to that distance, straight towards I; others stay."""
        for layer, C in self.projections().items():
            identity = torch.eye(C.shape[-1], dtype=C.dtype, device=C.device)
            distance = torch.linalg.matrix_norm(C - identity)[:, None, None]
            stored = self.C[str(layer)]
            near = identity + (C - identity) * (radius / distance)
            if self.rank is not None:
                near = torch.stack([stored[0], stored[1] * (radius / distance)])
            elif self.mahalanobis:  # between I and P Pᵀ, hence positive definite
                near = torch.linalg.cholesky_ex(near).L
            stored.copy_(torch.where(distance > radius, near, stored))

    def prepared(self, blocks: Sequence[Block]) -> BlockPoints:
        """Compute W_q C and W_v D of every layer once for all the batches of a forward pass.

        With rotary positions C stays outside of the weights.
        """
        projections = {
            (layer, name): QueryProjection(projection.weight, projection.bias, factor)
            for layer, name, projection, factor in self._factors(blocks)
        }
        return _Prepared(self, projections)

    def attend(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """softmax(R(Q) C R(K)ᵀ / √d_k) V with rotary positions R; without them C is in the query already."""
        if self.rotary and str(layer) in self.C:
            queries = queries @ self.projection(layer).expand(self.heads, -1, -1).to(queries.dtype)
        return super().attend(layer, queries, keys, values)

    def fold(self, backbone: Backbone) -> None:
        """W_q ← W_q C and b_q ← b_q C, and likewise W_v ← W_v D."""
        if self.rotary:
            raise InputError(
                f"{backbone.source!r} rotates queries and keys between their projection and their product, so C is no "
                "factor of the query projection and cannot be merged: keep the adapter attached"
            )
        for _, _, projection, factor in self._factors(backbone.blocks):
            weight, bias = fold(projection.weight, projection.bias, factor.detach())
            projection.weight.data = weight
            if bias is not None:
                projection.bias.data = bias

    def _factors(self, blocks: Sequence[Block]) -> Iterator[tuple[int, str, Any, Tensor]]:
        """What is multiplied into weights: layer, `query` or `value`, that projection, and the factor of every head."""
        for layer, block in enumerate(blocks):
            if str(layer) in self.C and not self.rotary:
                yield layer, "query", block.attention.q_proj, self.projection(layer).expand(self.heads, -1, -1)
            if str(layer) in self.D:
                yield layer, "value", block.attention.v_proj, self.D[str(layer)].expand(self.heads, -1, -1)


class _Prepared(RelayedPoints):
    """Coalescent projections during one forward pass, in which no factor changes."""

    def __init__(self, adapter: Coalescent, projections: dict[tuple[int, str], QueryProjection]) -> None:
        super().__init__(adapter)
        self.projections = projections

    def query(self, layer: int, projection: nn.Module, x: Tensor) -> Tensor:
        """X W_q C + b_q C."""
        return self.projections.get((layer, "query"), projection)(x)

    def value(self, layer: int, projection: nn.Module, x: Tensor) -> Tensor:
        """X W_v D + b_v D."""
        return self.projections.get((layer, "value"), projection)(x)


def mean_of_projections(
    adapters: Sequence[Mapping[str, Tensor]], constraint: str = "free", **other_options: Any
) -> dict[str, Tensor]:
    """The stored tensors of the adapter whose every factor is the mean of those of adapters with the same options."""
    mean = {}
    for name, like in adapters[0].items():
        stored = torch.stack([tensors[name].double() for tensors in adapters])
        if constraint == "mahalanobis" and name.startswith("C."):
            stored = torch.linalg.cholesky((stored.tril() @ stored.tril().mT).mean(0))[None]
        mean[name] = stored.mean(0).to(like.dtype)
    return mean


def symmetry_penalty(C: Matrices) -> Float[Tensor, ""]:
    """‖C − Cᵀ‖²_F, summed over the heads."""
    return (C - C.transpose(-1, -2)).square().sum()


def _start(
    heads: int, head_dim: int, generator: torch.Generator, init: str = "identity", rank: int | None = None
) -> Tensor:
    """C, or U and V where there is a rank."""
    if rank is not None:
        U = torch.randn(heads, head_dim, rank, generator=generator) * head_dim**-0.5
        return torch.stack([U, torch.zeros_like(U)])
    identity = torch.eye(head_dim).repeat(heads, 1, 1)
    if init == "identity":
        return identity
    noise = 0.02 * torch.randn(heads, head_dim, head_dim, generator=generator)
    return torch.where(identity.bool(), identity, noise)
