"""The kinds of adapters by name. A new one is one file and one line here, or an entry point of another package."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from cplsr.adapters.base import Adapter, Shape
from cplsr.declared import fit_arguments
from cplsr.named import Named

KINDS: Named[type[Adapter]] = Named(
    "adapters",
    "adapter kind",
    {
        "coalescent": "cplsr.adapters.coalescent:Coalescent",
        "attn_scale": "cplsr.adapters.attn_scale:AttnScale",
        "soft_prompts": "cplsr.adapters.soft_prompts:SoftPrompts",
        "tokens": "cplsr.adapters.tokens:Tokens",
        "residual": "cplsr.adapters.residual:Residual",
        "lora": "cplsr.adapters.lora:Lora",
        "full": "cplsr.adapters.full:Full",
        "attention_temperature": "cplsr.adapters.attention_temperature:AttentionTemperature",
    },
)


def make_adapter(kind: str, shape: Shape, options: Mapping[str, Any]) -> Adapter:
    """Build an adapter of a kind for a backbone of this shape, and keep its options, defaults included, as files do.

    Raises:
        InputError: the kind or an option is not known, or a value does not fit.
    """
    adapter = KINDS.find(kind)(shape, **check_options(kind, options))
    chosen = {**default_options(kind), **options}
    adapter.options = {name: list(value) if isinstance(value, tuple) else value for name, value in chosen.items()}
    return adapter


def check_options(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an adapter, converted to the types that its kind declares; see `make_adapter`."""
    return fit_arguments(KINDS.find(kind), options, f"the adapter {kind!r}", "shape")


def default_options(kind: str) -> dict[str, Any]:
    """All options that adapters of a kind have, as they are where none is given."""
    arguments = inspect.signature(KINDS.find(kind)).parameters
    return {name: argument.default for name, argument in arguments.items() if name != "shape"}
