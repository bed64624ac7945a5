"""From the arguments of a command to declared options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import tyro

from cplsr.declared import Declared

Options = TypeVar("Options", bound=Declared)


def parse(cls: type[Options], verb: str, arguments: Sequence[str], recipe: Mapping[str, Any] | None = None) -> Options:
    """Parse the arguments of a command; where they give none, the settings of a recipe hold.

    Nothing is checked before arguments and recipe are put together: one may put right what the other lacks.
    """
    free: Any = type(cls.__name__, (cls,), {"__post_init__": lambda self: None, "__doc__": cls.__doc__})
    default = {"default": free(**recipe)} if recipe else {}
    return cls(**vars(tyro.cli(free, args=arguments, prog=f"cplsr {verb}", **default)))
