"""The frozen vision transformer: images in, one embedding per image out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from cplsr.backbones.block_points import BlockPoints, attention_map
from cplsr.backbones.families import Block, blocks_of, family_of, prefix_tokens
from cplsr.backbones.fingerprint import fingerprint_of
from cplsr.backbones.pooling import pool, pooled_layers
from cplsr.backbones.positions import resize_positions
from cplsr.backbones.views import check_views, views_of
from cplsr.errors import InputError
from cplsr.records.parts import BackboneInfo, Color

Rotation = tuple[Tensor, Tensor]

CACHE_BYTES = 10 << 20
"""What the widest activations may take on a CPU before a batch is cut; see `Backbone.images_at_a_time`."""

_NO_ADAPTER = BlockPoints()
_UNUSED = ("mask_token", "pooler.")
"""Parts of a transformers model that no embedding depends on."""

Between = Callable[[int, Tensor], Tensor]
"""What happens to the tokens (batch, tokens, dim) on their way into block number `layer`."""

Around = Callable[[BlockPoints], BlockPoints]
"""What one forward pass makes of the adapter's points, for changes of attention itself."""


class Backbone(nn.Module):
    """A vision transformer whose own weights never train, with room for one adapter.

    Calling it turns images (batch, 3, size, size) into embeddings (batch, embedding_dim) in float32 (float64 if its
    weights are): the class token after the final norm, with `pooling="mean"` the mean of the patch tokens, or with
    `pooling="depth"` the unit class token and the unit mean of the patch tokens after each of `pooled_layers`, side by
    side; with `views` other than `plain` the mean of the embeddings of all views of an image. `uint8` images are raw
    pixels and are normalized here with the backbone's own `mean` and `std`; floating-point images are taken as
    normalized already. `load_backbone` makes one.

    The blocks are run here and not by transformers' own `forward`, for two reasons: adapters act at the named
    `BlockPoints` instead of through hooks, and with `pooling="cls"` the last block is computed for the class token
    alone, which gives the same embedding for less work.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        source: str,
        mean: Color,
        std: Color,
        pooling: str = "cls",
        layers: Sequence[int] | None = None,
        views: str = "plain",
    ) -> None:
        super().__init__()
        config: Any = model.config
        self.family = family_of(config, source)
        self.model = model
        self.source = source
        self.mean, self.std = mean, std
        self.pooling, self.views = pooling, check_views(views)
        self.dim: int = config.hidden_size
        self.heads: int = config.num_attention_heads
        self.head_dim = self.dim // self.heads
        self.layers: int = config.num_hidden_layers
        self.pooled_layers = pooled_layers(pooling, layers, self.layers)
        self.patch_size = _one_side(config.patch_size)
        self.image_size = _one_side(config.image_size)
        self.position_interpolation = "none"
        self.precision: Literal["fp32", "bf16"] = "fp32"
        self.checkpointing = False
        self.adapter: BlockPoints | None = None
        self.requires_grad_(False)
        self.train(False)
        self.fingerprint = self.weights_fingerprint()

    @property
    def rotary(self) -> bool:
        """Whether queries and keys are rotated between their projection and their product."""
        return self.family.rotary

    @property
    def prefix(self) -> int:
        """How many tokens stand before the patch tokens."""
        return prefix_tokens(self.model)

    @property
    def patches(self) -> int:
        """How many patch tokens an image gives."""
        return (self.image_size // self.patch_size) ** 2

    @property
    def tokens(self) -> int:
        """How many tokens an image gives, the class token and its like included."""
        return self.prefix + self.patches

    @property
    def embedding_dim(self) -> int:
        """How many numbers an embedding has; `dim` is the width of a token."""
        return self.dim * self.embedding_parts

    @property
    def embedding_parts(self) -> int:
        """Of how many equal parts of their own length an embedding consists: two for each block with `depth`, or 1."""
        return 2 * len(self.pooled_layers) if self.pooling == "depth" else 1

    @property
    def blocks(self) -> list[Block]:
        """The transformer blocks, first to last."""
        return blocks_of(self.model, self.family)

    @property
    def dtype(self) -> torch.dtype:
        """Number format of the weights."""
        return self.model.get_parameter("embeddings.cls_token").dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.model.get_parameter("embeddings.cls_token").device

    @property
    def adapter_fingerprint(self) -> str | None:
        """Fingerprint of the adapter's parameters, `None` without one."""
        return getattr(self.adapter, "fingerprint", None)

    def train(self, mode: bool = True) -> Backbone:
        """Stay in evaluation mode whatever is asked: a frozen backbone has no other."""
        return super().train(False)

    def description(self) -> BackboneInfo:
        """Describe the backbone for the record of a run, a result or a stored adapter."""
        names = ("source", "fingerprint", "dim", "heads", "layers", "patch_size", "image_size", "pooling")
        description = {name: getattr(self, name) for name in (*names, "position_interpolation", "precision")}
        if self.pooling == "depth":
            description["pooled_layers"] = self.pooled_layers
        if self.views != "plain":
            description["views"] = self.views
        return cast(BackboneInfo, {**description, "mean": self.mean, "std": self.std})

    def weights_fingerprint(self) -> str:
        """Fingerprint of the weights as they are now, the adapter left out."""
        state = self.model.state_dict()
        return fingerprint_of({name: w for name, w in state.items() if not any(part in name for part in _UNUSED)})

    def embedding_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The model's own parameters that an embedding depends on, by name."""
        for name, parameter in self.model.named_parameters():
            if parameter.numel() and not any(part in name for part in _UNUSED):
                yield name, parameter

    def resize(self, image_size: int, *, antialias: bool = True) -> None:
        """Take images of another size from now on: the position embeddings are interpolated once and kept.

        Args:
            image_size: the new side in pixels, a multiple of the patch size.
            antialias: average over positions that a smaller grid leaves out.

        Raises:
            InputError: the size is not a multiple of the patch size.
        """
        if image_size <= 0 or image_size % self.patch_size:
            lower = max(image_size // self.patch_size, 1) * self.patch_size
            raise InputError(
                f"image size {image_size} is not a multiple of the patch size {self.patch_size} of {self.source!r}: "
                f"give {lower} or {lower + self.patch_size}"
            )
        if image_size == self.image_size:
            return
        if not self.rotary:
            embeddings: Any = self.model.get_submodule("embeddings")
            old = embeddings.position_embeddings
            special = old.shape[1] - self.patches
            new = resize_positions(old.data, special, image_size // self.patch_size, antialias=antialias)
            embeddings.position_embeddings = nn.Parameter(new, requires_grad=False)
            square = (image_size, image_size)
            embeddings.image_size = embeddings.patch_embeddings.image_size = square
            embeddings.patch_embeddings.num_patches = (image_size // self.patch_size) ** 2
            self.position_interpolation = "bicubic, antialiased" if antialias else "bicubic"
        config: Any = self.model.config
        config.image_size = image_size
        self.image_size = image_size

    @contextmanager
    def pooled(self, pooling: str, layers: Sequence[int] | None = None) -> Iterator[None]:
        """Make other embeddings of the same tokens until the end of the block; arguments as when it is loaded."""
        before = self.pooling, self.pooled_layers
        self.pooled_layers = pooled_layers(pooling, layers, self.layers)
        self.pooling = pooling
        try:
            yield
        finally:
            self.pooling, self.pooled_layers = before

    def normalize(self, pixels: Tensor) -> Float[Tensor, "batch 3 height width"]:
        """Scale raw `uint8` pixels to the range of colors that the transformer was trained on."""
        mean, std = (
            torch.tensor(values, dtype=torch.float32, device=self.device).view(1, 3, 1, 1)
            for values in (self.mean, self.std)
        )
        return (pixels.to(self.device).float() / 255 - mean) / std

    @property
    def images_at_a_time(self) -> int:
        """How many images go through the blocks together.

        On a CPU a large batch spends its time waiting for memory: with as many images as the cache holds the widest
        activations of, the same numbers come out sooner. Elsewhere the whole batch goes at once.
        """
        if self.device.type != "cpu":
            return 1 << 30
        widest = 4 * self.dim * self.tokens * self.dtype.itemsize
        return max(1, round(CACHE_BYTES / widest))

    def forward(
        self, images: Tensor, between: Between | None = None, around: Around | None = None
    ) -> Float[Tensor, "batch embedding_dim"]:
        """Embed a batch of images.

        Args:
            images: (batch, 3, size, size), raw `uint8` pixels or normalized floats.
            between: changes the tokens as they enter each block, before the adapter sees them; it is given the whole
                batch at once, so that it may mix images.
            around: makes the points that this pass uses from the adapter's.

        Raises:
            InputError: the images have another shape or size than the backbone takes.
        """
        self._check(images)
        steps = self._steps(around)
        seen = [self._embed_all(view, steps, between) for view in views_of(images, self.views)]
        return seen[0] if len(seen) == 1 else torch.stack(seen).mean(dim=0)

    def _embed_all(self, images: Tensor, steps: _Steps, between: Between | None) -> Tensor:
        if between is not None:
            return self._embed(images, steps, between)
        parts = [self._embed(part, steps) for part in images.split(self.images_at_a_time)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _embed(self, images: Tensor, steps: _Steps, between: Between | None = None) -> Tensor:
        tokens, rotation = self._start(images)
        norm, last, parts = self.model.get_submodule(self.family.final_norm), self.pooled_layers[-1], []
        for layer in range(last + 1):
            if between is not None:
                tokens = between(layer, tokens)
            rows = 1 if self.pooling == "cls" and layer == last else None
            if self.checkpointing and torch.is_grad_enabled():
                tokens = checkpoint(steps.block, layer, tokens, rotation, rows, use_reentrant=False)
            else:
                tokens = steps.block(layer, tokens, rotation, rows)
            if layer in self.pooled_layers:
                parts.append(pool(tokens, norm, self.patches, self.pooling))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def attention_maps(
        self, images: Tensor, layer: int = -1, around: Around | None = None
    ) -> Float[Tensor, "batch heads tokens tokens"]:
        """Compute the attention of one block.

        Args:
            images: (batch, 3, size, size), raw `uint8` pixels or normalized floats.
            layer: number of the block, negative from the end.
            around: makes the points that this pass uses from the adapter's.

        Returns:
            For each image and head a matrix whose row i says how much token i attends to every token; rows sum to 1.
        """
        self._check(images)
        tokens, rotation = self._start(images)
        steps = self._steps(around)
        layer %= self.layers
        for earlier in range(layer):
            tokens = steps.block(earlier, tokens, rotation)
        q, k, _ = steps.queries_keys_values(layer, steps.points.enter(layer, tokens), rotation)
        return attention_map(steps.points, layer, q, k)

    def _steps(self, around: Around | None = None) -> _Steps:
        blocks = self.blocks
        points = (self.adapter or _NO_ADAPTER).prepared(blocks)
        return _Steps(blocks, points if around is None else around(points), self.heads)

    def _start(self, images: Tensor) -> tuple[Tensor, Rotation | None]:
        x = self.normalize(images) if images.dtype == torch.uint8 else images
        x = x.to(device=self.device, dtype=self.dtype)
        tokens: Tensor = self.model.get_submodule("embeddings")(x)
        rotation: Rotation | None = self.model.get_submodule("rope_embeddings")(x) if self.rotary else None
        return tokens, rotation

    def _check(self, images: Tensor) -> None:
        wanted = f"(batch, 3, {self.image_size}, {self.image_size})"
        if images.ndim != 4 or images.shape[1] != 3:
            raise InputError(f"images have the shape {tuple(images.shape)}; the backbone takes {wanted}")
        if images.shape[2:] != (self.image_size, self.image_size):
            size = images.shape[-1]
            raise InputError(
                f"images are {images.shape[2]} x {size} pixels; the backbone was loaded for "
                f"{self.image_size} x {self.image_size}: resize the images or load it with image_size={size}"
            )


def _one_side(size: int | tuple[int, int] | list[int]) -> int:
    if isinstance(size, int):
        return size
    if len(set(size)) != 1:
        raise InputError(f"the model wants {size[0]} x {size[1]}; only square images and patches are supported")
    return size[0]


@dataclass(frozen=True, eq=False)
class _Steps:
    """The blocks of one forward pass, and what an adapter does at their points."""

    blocks: list[Block]
    points: BlockPoints
    heads: int

    def block(self, layer: int, tokens: Tensor, rotation: Rotation | None, rows: int | None = None) -> Tensor:
        """One pre-norm block; with `rows` only the first rows are computed, though they attend to all tokens."""
        block, points = self.blocks[layer], self.points
        attention: Any = block.attention
        tokens = points.enter(layer, tokens)
        y = points.attend(layer, *self.queries_keys_values(layer, tokens, rotation, rows))
        y = points.attention_branch(layer, attention.o_proj(y.transpose(1, 2).flatten(2)))
        tokens = tokens[:, :rows] + (y if block.attention_scale is None else block.attention_scale(y))
        y = points.mlp_branch(layer, block.mlp(block.norm_after(tokens)))
        return tokens + (y if block.mlp_scale is None else block.mlp_scale(y))

    def queries_keys_values(
        self, layer: int, tokens: Tensor, rotation: Rotation | None, rows: int | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The three projections of the normed tokens, each (batch, heads, tokens, head_dim)."""
        attention: Any = self.blocks[layer].attention
        x = self.blocks[layer].norm_before(tokens)
        query = self.points.query(layer, attention.q_proj, x[:, :rows])
        value = self.points.value(layer, attention.v_proj, x)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (query, attention.k_proj(x), value))
        if rotation is not None:
            k = _rotate(k, rotation)
            q = _rotate(q, rotation) if rows is None else q  # the class token has no place, so it is not rotated
        return q, k, v


def _rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Rotary position on the patch tokens, the last ones; class, register and prompt tokens before them keep still."""
    cos, sin = rotation
    still, patches = x.split((x.shape[-2] - sin.shape[-2], sin.shape[-2]), dim=-2)
    first, second = patches.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return torch.cat((still, patches * cos + turned * sin), dim=-2)
