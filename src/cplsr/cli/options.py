"""From the arguments of a command, and from recipes (settings in a TOML file), to declared options."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import tyro

from cplsr.declared import Declared, fit_table, kinds_of
from cplsr.errors import InputError

Options = TypeVar("Options", bound=Declared)


def parse(cls: type[Options], verb: str, arguments: Sequence[str], recipe: Mapping[str, Any] | None = None) -> Options:
    """Parse the arguments of a command; where they give none, the settings of a recipe hold.

    Nothing is checked before arguments and recipe are put together: one may put right what the other lacks.
    """
    return cls(**vars(parse_unchecked(cls, verb, arguments, recipe or {})))


def parse_unchecked(cls: type[Options], verb: str, arguments: Sequence[str], recipe: Mapping[str, Any]) -> Any:
    """The same before anything is checked but types."""
    free: Any = type(cls.__name__, (cls,), {"__post_init__": lambda self: None, "__doc__": cls.__doc__})
    default = {"default": free(**recipe)} if recipe else {}
    return tyro.cli(free, args=arguments, prog=f"cplsr {verb}", **default)


def split_recipe(cls: type[Declared], arguments: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Read the recipe that the first argument names, if it is no option: its settings, and the other arguments."""
    if arguments and not arguments[0].startswith("-"):
        return read_recipe(Path(arguments[0]), cls), arguments[1:]
    return {}, arguments


def read_recipe(path: Path, cls: type[Declared]) -> dict[str, Any]:
    """Read the settings in a recipe: a file, or where there is none the one of its name that comes with the package."""
    packaged = Path(__file__).parents[1] / "recipes" / path.name
    path = packaged if not path.exists() and packaged.is_file() else path
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"the recipe {path} cannot be read ({error.strerror}): give a .toml file that exists"
        ) from error
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise InputError(f"the recipe {path} is not valid TOML: {error}") from error
    return fit_table(content, kinds_of(cls), f"the recipe {path}")
