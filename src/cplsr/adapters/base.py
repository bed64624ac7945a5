"""What every adapter is: parameters for the points of a block, and how they are stored and folded."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from cplsr.backbones.backbone import Backbone
from cplsr.backbones.block_points import BlockPoints
from cplsr.backbones.fingerprint import fingerprint_of
from cplsr.declared import Declared
from cplsr.errors import InputError


@dataclass(frozen=True)
class Shape(Declared):
    """The numbers that the sizes of an adapter's parameters depend on; `Shape.of(backbone)` reads them off."""

    layers: int
    heads: int
    head_dim: int
    dim: int
    tokens: int
    rotary: bool


class Adapter(BlockPoints, ABC):
    """Trainable parameters that act at some of the `BlockPoints` of every block.

    A kind of adapter is one file with one final subclass: a constructor that takes a `Shape` and keyword options and
    makes the parameters in layer order, the points it overrides, and `fold` if it can disappear into the weights.

    Attributes:
        kind: the name by which `attach` knows it.
        options: the constructor's options as they were given, defaults included.
        temperature: the factor of the cosines it was trained with, where that is known.
    """

    kind: ClassVar[str]
    options: dict[str, Any]
    temperature: float | None = None

    def install(self, backbone: Backbone) -> None:
        """Change modules of the backbone, where overriding points is not enough; most kinds need nothing here.

        Adapters that are parts of this one do what they need.
        """
        for part in self.children():
            if isinstance(part, Adapter):
                part.install(backbone)

    def uninstall(self, backbone: Backbone) -> None:
        """Undo `install`."""
        for part in self.children():
            if isinstance(part, Adapter):
                part.uninstall(backbone)

    def fold(self, backbone: Backbone) -> None:
        """Write the adapter's effect into the weights of `backbone`, which is a copy made for it.

        Raises:
            InputError: adapters of this kind have no equivalent in the weights.
        """
        raise InputError(f"{self.kind!r} has no equivalent in the backbone's weights and cannot be merged")

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the parameters; kind and options are part of the names."""
        return fingerprint(self.kind, self.options, self.state_dict())


def fingerprint(kind: str, options: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """Fingerprint of an adapter with these parameters; kind and options are part of the names, also without any."""
    head = f"{kind} {sorted(options.items())} "
    return fingerprint_of({head + name: tensor for name, tensor in (tensors or {"": torch.empty(0)}).items()})


def seeded(seed: int) -> torch.Generator:
    """Make a random stream for the start values of an adapter, apart from torch's global one."""
    return torch.Generator().manual_seed(seed)
