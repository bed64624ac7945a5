"""The whole backbone as what learns: every weight the embedding depends on."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn

from cplsr.adapters.base import Adapter, Shape
from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError


class Full(Adapter):
    """All weights of the backbone, trained in place, as most published methods do.

    The parameters here are the backbone's own, so a stored adapter of this kind is as large as the backbone and fits
    one image size. Detaching it restores the weights from before.
    """

    kind: ClassVar[str] = "full"

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.weights = nn.ParameterDict()
        self._before: dict[str, nn.Parameter] = {}

    def install(self, backbone: Backbone) -> None:
        """Put copies of the backbone's parameters in their place, and hold them here: others may share the old ones."""
        if backbone.dtype == torch.bfloat16:
            raise InputError("the whole backbone cannot be trained in bf16: load it with --precision fp32")
        for name, parameter in list(backbone.embedding_parameters()):
            self._before[name] = parameter
            self.weights[name.replace(".", "/")] = _replace(backbone, name, nn.Parameter(parameter.detach().clone()))

    def uninstall(self, backbone: Backbone) -> None:
        """Put the old parameters back."""
        for name, parameter in self._before.items():
            _replace(backbone, name, parameter)

    def fold(self, backbone: Backbone) -> None:
        """Forget the earlier values; the weights of the backbone are the trained ones already."""
        self._before.clear()


def _replace(backbone: Backbone, name: str, parameter: nn.Parameter) -> nn.Parameter:
    module, _, own = name.rpartition(".")
    setattr(backbone.model.get_submodule(module), own, parameter)
    return parameter
