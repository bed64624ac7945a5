"""LoRA on the projections of attention, by peft."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import torch
from msgspec import Meta
from torch import nn

from cplsr.adapters.base import Adapter, Shape
from cplsr.backbones.backbone import Backbone
from cplsr.declared import between
from cplsr.errors import InputError
from cplsr.settings.numbers import Seed

_NAMES = {"query": "q_proj", "key": "k_proj", "value": "v_proj"}
"""Of the projections, as transformers has them."""


class Lora(Adapter):
    """W + (alpha / rank) B A for W_q and W_k of every layer, the best-known small adapter, by peft's layers.

    A starts random and B zero, so that training starts at the frozen model.

    Args:
        rank: columns of B and rows of A.
        alpha: factor of the product, divided by `rank`.
        targets: which projections have it.
        seed: of the start values of A.
    """

    kind: ClassVar[str] = "lora"

    def __init__(
        self,
        shape: Shape,
        *,
        rank: Annotated[int, between(1, 10_000)] = 4,
        alpha: Annotated[float, between(0, 1_000_000)] = 8.0,
        targets: Annotated[tuple[Literal["query", "key", "value"], ...], Meta(min_length=1)] = ("query", "key"),
        seed: Seed = 0,
    ) -> None:
        super().__init__()
        self.rank, self.alpha, self.seed = rank, alpha, seed
        self.names = [name for target, name in _NAMES.items() if target in targets]
        self.pairs = nn.ParameterDict()

    def install(self, backbone: Backbone) -> None:
        """Let peft wrap the projections, and hold its parameters here too, under names of our own."""
        try:
            from peft import LoraConfig, inject_adapter_in_model
        except ImportError as error:
            raise InputError("the lora adapter needs peft: pip install 'cplsr[lora]'") from error
        config = LoraConfig(r=self.rank, lora_alpha=self.alpha, target_modules=self.names)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)  # peft draws from the global stream
            inject_adapter_in_model(config, backbone.model)
        for number, (attention, name) in enumerate(self._wrapped(backbone)):
            for part in ("A", "B"):
                weight = getattr(getattr(attention, name), f"lora_{part}")["default"].weight
                self.pairs[f"{number // len(self.names)}_{name}_{part}"] = weight

    def uninstall(self, backbone: Backbone) -> None:
        """Put the plain projections back."""
        for attention, name in self._wrapped(backbone):
            setattr(attention, name, getattr(attention, name).base_layer)
        if hasattr(backbone.model, "peft_config"):
            del backbone.model.peft_config

    def fold(self, backbone: Backbone) -> None:
        """Let peft add its product to the weights."""
        for attention, name in self._wrapped(backbone):
            getattr(attention, name).merge(safe_merge=True)

    def _wrapped(self, backbone: Backbone) -> list[tuple[Any, str]]:
        """The attention of every block, once with each name of a projection that peft wraps."""
        return [(block.attention, name) for block in backbone.blocks for name in self.names]
