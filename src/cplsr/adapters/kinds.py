"""The kinds of adapters by name. A new one is one file and one line here."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from cplsr.adapters.base import Adapter, Shape
from cplsr.errors import InputError

KINDS = {
    "coalescent": "cplsr.adapters.coalescent:Coalescent",
    "attn_scale": "cplsr.adapters.attn_scale:AttnScale",
    "soft_prompts": "cplsr.adapters.soft_prompts:SoftPrompts",
    "residual": "cplsr.adapters.residual:Residual",
    "lora": "cplsr.adapters.lora:Lora",
    "full": "cplsr.adapters.full:Full",
}


def make_adapter(kind: str, shape: Shape, options: Mapping[str, Any]) -> Adapter:
    """Build an adapter of a kind; its options, defaults included, are kept on it."""
    cls = _class_of(kind)
    known = {name: p.default for name, p in inspect.signature(cls).parameters.items() if name != "shape"}
    if unknown := sorted(set(options) - set(known)):
        near = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known) or 'no options'}"
        raise InputError(f"adapter {kind!r} has no option {unknown[0]!r}: {hint}")
    adapter = cls(shape, **options)
    adapter.options = {**known, **options}
    return adapter


def accepts_option(kind: str, option: str) -> bool:
    """Whether adapters of a kind have an option of that name."""
    return option in inspect.signature(_class_of(kind)).parameters


def _class_of(kind: str) -> type[Adapter]:
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"give one of {', '.join(KINDS)}"
        raise InputError(f"there is no adapter kind {kind!r}: {hint}")
    module, name = KINDS[kind].split(":")
    return getattr(importlib.import_module(module), name)
