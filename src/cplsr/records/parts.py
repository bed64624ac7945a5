"""Entries that several records share; they stay dictionaries in memory, and are checked when they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict

from cplsr.declared import between

Count = Annotated[int, between(1, 10**6)]
"""Layers, pixels, images of a class: whatever there is at least one of, and not absurdly many."""
Color = tuple[float, float, float]

if TYPE_CHECKING:
    OrInfinite = float
else:
    OrInfinite = float | None
    """JSON has no infinity: such a figure is null in the file, and infinite again in a `NullIsInfinite`."""


class NullIsInfinite:
    """Base of frozen dataclasses with fields declared `OrInfinite`: null becomes infinity there."""

    def __post_init__(self) -> None:
        """Put it there."""
        for name, kind in type(self).__annotations__.items():  # as they are written: the modules postpone them
            if kind == "OrInfinite" and getattr(self, name) is None:
                object.__setattr__(self, name, float("inf"))


class BackboneInfo(TypedDict):
    """A backbone as `Backbone.description` tells it; what is not required was not told at first."""

    source: str
    fingerprint: str
    dim: Count
    heads: Count
    layers: Count
    patch_size: Count
    image_size: Count
    pooling: str
    pooled_layers: NotRequired[tuple[int, ...]]
    views: NotRequired[str]
    position_interpolation: NotRequired[str]
    precision: NotRequired[str]
    mean: NotRequired[Color]
    std: NotRequired[Color]


class AdapterKind(TypedDict):
    """Which adapter is trained."""

    kind: str
    options: NotRequired[dict[str, Any]]


class MethodInfo(TypedDict, total=False):
    """Which objective is trained with; empty for the frozen backbone."""

    name: str
    options: dict[str, Any]
