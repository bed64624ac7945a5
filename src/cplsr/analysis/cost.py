"""What adapters cost against the size of the image: parameters, operations, measured time.

An operation is a multiplication or an addition, so that a product of (a, b) and (b, c) counts 2abc. Counted are the
products of matrices, and the n² factors of AttnScale; norms, softmax and additions are left out on all sides.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from cplsr.adapters.base import Adapter, Shape
from cplsr.adapters.kinds import make_adapter
from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError
from cplsr.progress import progress_bar
from cplsr.records.analysis import CostRow
from cplsr.records.results import FROZEN

IMAGE_SIZES = (112, 224, 384, 448)
PROMPT_LENGTHS = (1, 2, 4, 8)
VARIANTS: dict[str, tuple[str, dict[str, Any]] | None] = {
    FROZEN: None,
    "coalescent": ("coalescent", {"sharing": "per_head"}),
    "coalescent shared": ("coalescent", {"sharing": "shared"}),
    "attn_scale": ("attn_scale", {}),
    **{f"soft_prompts {length}": ("soft_prompts", {"length": length}) for length in PROMPT_LENGTHS},
}
"""Kind and options of the adapters whose cost is told, by their name in tables."""


def forward_flops(backbone: Backbone, images: int = 1) -> int:
    """Count the operations of one forward pass of a batch, with whatever adapter is on the backbone.

    Only shapes pass through a copy that holds no numbers. C is folded into the query projection once per pass, not
    once per image; merged, it costs nothing at all.
    """
    shapes = copy.deepcopy(backbone).to("meta")
    batch = torch.empty(images, 3, backbone.image_size, backbone.image_size, dtype=torch.uint8, device="meta")
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.mul: _count_factors})
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        shapes(batch)
    return counter.get_total_flops()


def _count_factors(left: torch.Size, right: Any, *_: Any, out_shape: torch.Size, **__: Any) -> int:
    """Count AttnScale's products, entry by entry, of maps by one tensor for all images; others are no adapter's."""
    by_tensor_for_all = isinstance(right, torch.Size) and (len(left), len(right)) == (4, 3)
    return out_shape.numel() if by_tensor_for_all else 0


def fitting_sizes(patch_size: int) -> tuple[int, ...]:
    """The image sizes nearest to `IMAGE_SIZES` that patches fill exactly, each once."""
    return tuple(dict.fromkeys(max(1, round(size / patch_size)) * patch_size for size in IMAGE_SIZES))


def cost_rows(
    backbone: Backbone, *, sizes: Sequence[int] | None = None, images: int = 4, repetitions: int = 5
) -> tuple[CostRow, ...]:
    """Cost of every variant at every image size, per image of a batch of `images`; 0 repetitions measure no time.

    The backbone is left alone: a copy is what is resized and timed.
    """
    if backbone.adapter is not None:
        raise InputError("the backbone carries an adapter, so the frozen one cannot be timed: detach it first")
    own = copy.deepcopy(backbone)
    rows = []
    for size in sizes or fitting_sizes(backbone.patch_size):
        own.resize(size)
        shape = Shape.of(own)
        adapters = {
            name: None if variant is None else make_adapter(variant[0], shape, variant[1]).to(own.device)
            for name, variant in VARIANTS.items()
        }
        seconds = _measure(own, adapters, images, repetitions)
        for name, adapter in adapters.items():
            own.adapter = adapter
            parameters = 0 if adapter is None else sum(weight.numel() for weight in adapter.parameters())
            flops = round(forward_flops(own, images) / images)
            rows.append(CostRow(name, size, shape.tokens, parameters, flops, seconds[name]))
        own.adapter = None
    return tuple(sorted(rows, key=lambda row: list(VARIANTS).index(row.adapter)))


def _measure(
    backbone: Backbone, adapters: Mapping[str, Adapter | None], images: int, repetitions: int
) -> dict[str, float | None]:
    """Median seconds per image; the adapters take turns, so that a busy machine slows all of them alike."""
    size = backbone.image_size
    batch = torch.zeros(images, 3, size, size, dtype=torch.uint8, device=backbone.device)
    times: dict[str, list[float | None]] = {name: [] for name in adapters}
    passes = repetitions + 1 if repetitions else 0  # the first only warms up
    with progress_bar(len(adapters) * passes, f"timing at {size} px", unit="pass") as bar:
        for _ in range(passes):
            for name, adapter in adapters.items():
                backbone.adapter = adapter
                times[name].append(forward_seconds(backbone, batch))
                bar.update()
    known = {name: [second for second in warm[1:] if second is not None] for name, warm in times.items()}
    return {name: statistics.median(warm) / images if warm else None for name, warm in known.items()}


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
