"""What every export does first and last: take a plain copy, compare what was written with the source."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cplsr.adapters.attach import adapter_of, merge
from cplsr.backbones.backbone import Backbone
from cplsr.environment import versions
from cplsr.errors import InputError


@dataclass(frozen=True)
class Exported:
    """A finished export.

    Attributes:
        path: the file or folder that was written.
        merged: whether an adapter was folded into the weights.
        difference: max |a − b| / max |b|, where a is what the written model gives on random images, b what the source
            gives.
    """

    path: Path
    merged: bool
    difference: float


def on_cpu(backbone: Backbone) -> Backbone:
    """Return the backbone if it is on the CPU, else a copy there, so that comparisons do not depend on the device."""
    if backbone.dtype != torch.float32:
        raise InputError(f"the backbone is in {backbone.dtype}; exports are float32: load it with precision fp32")
    return backbone if backbone.device.type == "cpu" else copy.deepcopy(backbone).to("cpu")


def merged_copy(backbone: Backbone) -> Backbone:
    """Make a copy that is an ordinary vision transformer: an adapter is folded into its weights."""
    if backbone.views != "plain":
        raise InputError(
            f"ordinary weights look at an image once, and the backbone was loaded with views {backbone.views!r}: load "
            "it with views plain, or give --to onnx, where the graph holds all views"
        )
    if backbone.adapter is None:
        return copy.deepcopy(backbone)
    try:
        return merge(backbone)
    except InputError as error:
        raise InputError(
            f"the adapter cannot become part of ordinary weights ({error}): try --to onnx, where the graph holds the "
            "adapter as it is"
        ) from error


def origin(backbone: Backbone) -> dict[str, Any]:
    """Describe backbone, adapter and library versions for the record; of a local path only the last part is kept."""
    path, adapter = Path(backbone.source).expanduser(), None
    source = path.name if path.is_absolute() or path.exists() else backbone.source
    if backbone.adapter is not None:
        attached = adapter_of(backbone)
        adapter = {"kind": attached.kind, "options": attached.options, "fingerprint": attached.fingerprint}
    return {"backbone": {**backbone.description(), "source": source}, "adapter": adapter, "versions": versions()}


def probe_images(backbone: Backbone, count: int, *, raw: bool = False) -> Tensor:
    """Make random images, the same ones every time: normalized floats, or raw pixels."""
    generator = torch.Generator().manual_seed(0)
    shape = (count, 3, backbone.image_size, backbone.image_size)
    if raw:
        return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    return torch.randn(shape, generator=generator)


def checked_difference(result: Tensor, reference: Tensor, tolerance: float, what: str) -> float:
    """Compute max |a − b| / max |b|, a being what the written model (`what`) gives and b what the source gives.

    Raises:
        InputError: the shapes differ, or the difference is larger than the tolerance or not a number.
    """
    if result.shape != reference.shape:
        raise InputError(f"{what} gives {tuple(result.shape)} where the source gives {tuple(reference.shape)}")
    difference = ((result - reference).abs().max() / reference.abs().max()).item()
    if not difference <= tolerance:
        raise InputError(
            f"{what} gives results that differ from the source by {difference:.1e} of the largest value, more than "
            f"{tolerance:.0e}; it was not kept"
        )
    return difference
