"""From the words of a command line to declared options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import tyro

from cplsr.declared import Declared

Options = TypeVar("Options", bound=Declared)


def parse(cls: type[Options], verb: str, words: Sequence[str], said: Mapping[str, Any] | None = None) -> Options:
    """The options of a verb by its words, or by what a recipe says where they are silent.

    Nothing is checked before the words and the recipe are put together: one may put right what the other lacks.
    """
    free: Any = type(cls.__name__, (cls,), {"__post_init__": lambda self: None, "__doc__": cls.__doc__})
    default = {"default": free(**said)} if said else {}
    return cls(**vars(tyro.cli(free, args=words, prog=f"cplsr {verb}", **default)))
