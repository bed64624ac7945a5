"""What adapters cost against the size of the image: parameters, operations by formula, measured time.

An operation is a multiplication or an addition, so that a product of (a, b) and (b, c) counts 2abc. Counted are the
products of matrices, and the n² factors of AttnScale; norms, softmax and additions are left out on all sides.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cplsr.adapters.base import Shape
from cplsr.adapters.kinds import make_adapter
from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError
from cplsr.progress import progress_bar
from cplsr.records.analysis import CostRow

FROZEN = "frozen"
IMAGE_SIZES = (112, 224, 384, 448)
PROMPT_LENGTHS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Variant:
    """An adapter whose cost is measured: its name in tables, kind and options; no kind is the frozen backbone."""

    name: str
    kind: str | None = None
    shared: bool = False
    length: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """The options of the adapter of this kind."""
        if self.kind == "coalescent":
            return {"sharing": "shared" if self.shared else "per_head"}
        return {"length": self.length} if self.kind == "soft_prompts" else {}


VARIANTS = (
    Variant(FROZEN),
    Variant("coalescent", "coalescent"),
    Variant("coalescent shared", "coalescent", shared=True),
    Variant("attn_scale", "attn_scale"),
    *(Variant(f"soft_prompts {length}", "soft_prompts", length=length) for length in PROMPT_LENGTHS),
)


@dataclass(frozen=True)
class Architecture:
    """What the cost of a vision transformer depends on.

    mlp_weights: entries of all matrices of one MLP. prefix: tokens before the patches.
    class_row_only: whether the last block is computed for the class token alone.
    """

    layers: int
    heads: int
    dim: int
    mlp_weights: int
    patch_size: int
    prefix: int
    rotary: bool
    class_row_only: bool

    @classmethod
    def of(cls, backbone: Backbone) -> Architecture:
        """The architecture of a loaded backbone."""
        mlp = backbone.blocks[0].mlp
        return cls(
            layers=backbone.layers,
            heads=backbone.heads,
            dim=backbone.dim,
            mlp_weights=sum(weight.numel() for weight in mlp.parameters() if weight.ndim == 2),
            patch_size=backbone.patch_size,
            prefix=backbone.prefix,
            rotary=backbone.rotary,
            class_row_only=backbone.pooling == "cls",
        )

    @property
    def head_dim(self) -> int:
        """d_k."""
        return self.dim // self.heads

    def tokens(self, image_size: int) -> int:
        """How many tokens an image gives."""
        return self.prefix + (image_size // self.patch_size) ** 2


def adapter_parameters(model: Architecture, variant: Variant, image_size: int) -> int:
    """Trainable parameters: L·H·d_k² (shared L·d_k²), L·H·n² or L·p·D; only AttnScale's grow with the image."""
    if variant.kind == "coalescent":
        return model.layers * (1 if variant.shared else model.heads) * model.head_dim**2
    if variant.kind == "attn_scale":
        return model.layers * model.heads * model.tokens(image_size) ** 2
    return model.layers * variant.length * model.dim


def forward_flops(model: Architecture, variant: Variant, image_size: int, images: int = 1) -> int:
    """Operations of one forward pass of a batch.

    Prompts accumulate: layer l has p·(l+1) tokens more. C is folded into the query projection once per pass, not per
    image; behind a rotary position it acts on every query. Merged, it costs nothing at all.
    """
    patches = model.tokens(image_size) - model.prefix
    per_image = 2 * patches * 3 * model.patch_size**2 * model.dim
    per_pass = 0
    for layer in range(model.layers):
        tokens = model.tokens(image_size) + variant.length * (layer + 1)
        rows = 1 if model.class_row_only and layer == model.layers - 1 else tokens
        per_image += block_flops(model, tokens, rows)
        if variant.kind == "attn_scale":
            per_image += model.heads * rows * tokens
        if variant.kind == "coalescent" and model.rotary:
            per_image += 2 * rows * model.dim * model.head_dim
        elif variant.kind == "coalescent":
            per_pass += 2 * model.dim * model.head_dim * (model.dim + 1)  # W_q C and b_q C
    return images * per_image + per_pass


def block_flops(model: Architecture, tokens: int, rows: int) -> int:
    """Operations of one plain block on one image when only the first `rows` tokens are computed.

    Query and output projection 4·r·D², key and value 4·n·D², Q Kᵀ and its product with V 4·r·n·D, MLP 2·r per weight.
    """
    projections = 4 * (rows + tokens) * model.dim**2
    return projections + 4 * rows * tokens * model.dim + 2 * rows * model.mlp_weights


def fitting_sizes(patch_size: int, wanted: Sequence[int] = IMAGE_SIZES) -> tuple[int, ...]:
    """The image sizes nearest to the wanted ones that patches fill exactly, each once."""
    return tuple(dict.fromkeys(max(1, round(size / patch_size)) * patch_size for size in wanted))


def cost_rows(
    backbone: Backbone,
    *,
    sizes: Sequence[int] | None = None,
    variants: Sequence[Variant] = VARIANTS,
    images: int = 4,
    repetitions: int = 5,
) -> tuple[CostRow, ...]:
    """Cost of every variant at every image size, per image of a batch of `images`; 0 repetitions measure no time.

    The backbone is left alone: a copy without an adapter is what is resized and timed.
    """
    model = Architecture.of(backbone)
    sizes = fitting_sizes(backbone.patch_size) if sizes is None else sizes
    clock: Mapping[tuple[str, int], float | None] = {}
    if repetitions > 0:
        clock = _measure(backbone, variants, sizes, images, repetitions)
    return tuple(
        CostRow(
            adapter=variant.name,
            image_size=size,
            tokens=model.tokens(size),
            parameters=adapter_parameters(model, variant, size),
            flops=round(forward_flops(model, variant, size, images) / images),
            seconds=clock.get((variant.name, size)),
        )
        for variant in variants
        for size in sizes
    )


def _measure(
    backbone: Backbone, variants: Sequence[Variant], sizes: Sequence[int], images: int, repetitions: int
) -> dict[tuple[str, int], float | None]:
    """Median seconds per image; the variants take turns, so that a busy machine slows all of them alike."""
    if backbone.adapter is not None:
        raise InputError("the backbone carries an adapter, so the frozen one cannot be timed: detach it first")
    own = copy.deepcopy(backbone)
    clock: dict[tuple[str, int], float | None] = {}
    with progress_bar(len(sizes) * len(variants) * (repetitions + 1), "timing", unit="pass") as bar:
        for size in sizes:
            own.resize(size)
            batch = torch.zeros(images, 3, size, size, dtype=torch.uint8, device=own.device)
            shape = Shape.of(own)
            adapters = {
                v.name: None if v.kind is None else make_adapter(v.kind, shape, v.options).to(own.device)
                for v in variants
            }
            times: dict[str, list[float | None]] = {name: [] for name in adapters}
            for _ in range(repetitions + 1):
                for name, adapter in adapters.items():
                    own.adapter = adapter
                    times[name].append(forward_seconds(own, batch))
                    bar.update()
            for name, (_, *warm) in times.items():
                known = [second for second in warm if second is not None]
                clock[name, size] = statistics.median(known) / images if known else None
    return clock


def forward_seconds(backbone: Backbone, batch: torch.Tensor) -> float | None:
    """How long a batch takes through the backbone; `None` where the memory does not suffice."""
    try:
        with torch.inference_mode():
            start = time.perf_counter()
            backbone(batch)[0, 0].item()  # reading one number waits for a GPU to finish
            return time.perf_counter() - start
    except torch.OutOfMemoryError:
        return None


def draw_cost(rows: Sequence[CostRow], path: Path) -> None:
    """Parameters, operations and time against the image size, as a picture; the rows hold the frozen backbone too.

    Operations are drawn as what comes on top of the frozen backbone, since the totals would all lie on one line.
    """
    from matplotlib.figure import Figure

    frozen = {row.image_size: row.flops for row in rows if row.adapter == FROZEN}
    panels = (
        ("trainable parameters", [float(row.parameters) for row in rows], True),
        ("operations more than frozen, in %", [100 * (row.flops / frozen[row.image_size] - 1) for row in rows], False),
        ("milliseconds per image", [1e3 * (row.seconds or float("nan")) for row in rows], False),
    )
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    for axes, (title, values, logarithmic) in zip(figure.subplots(1, 3), panels, strict=True):
        for number, name in enumerate(dict.fromkeys(row.adapter for row in rows)):
            own = [(row.image_size, v) for row, v in zip(rows, values, strict=True) if row.adapter == name]
            if not (logarithmic and all(value == 0 for _, value in own)):
                axes.plot(*zip(*own, strict=True), marker="osD^v<>P"[number % 8], label=name, color=f"C{number}")
        axes.set_title(title)
        axes.set_xlabel("image size in pixels")
        axes.set_xticks(sorted({row.image_size for row in rows}))
        axes.grid(alpha=0.3)
        if logarithmic:
            axes.set_yscale("log")
    handles, labels = figure.axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=150)
