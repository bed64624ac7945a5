"""Recipes: settings of a command in a TOML file, checked against the command's own options."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import types
import typing
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from cplsr.errors import InputError

Options = TypeVar("Options")


def split_recipe(cls: type[Options], arguments: list[str]) -> tuple[Options, list[str]]:
    """Defaults for the options of `cls`, from a recipe if the first word names one, and the words that are left."""
    if arguments and not arguments[0].startswith("-"):
        return cls(**read_recipe(Path(arguments[0]), cls)), arguments[1:]
    return cls(), arguments


def find_recipe(path: Path) -> Path:
    """The file itself, or the one of that name that comes with the package: `recipes/mini_5shot.toml` is everywhere."""
    packaged = Path(__file__).parents[1] / "recipes" / path.name
    return packaged if not path.exists() and packaged.is_file() else path


def read_recipe(path: Path, cls: type) -> dict[str, Any]:
    """The settings in a recipe; a misspelt name or a value of a wrong kind is an error that says so."""
    path = find_recipe(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"the recipe {path} cannot be read ({error.strerror}): give a .toml file that exists"
        ) from error
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise InputError(f"the recipe {path} is not valid TOML: {error}") from error
    kinds = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    settings = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "'--help' lists the options"
            raise InputError(f"the recipe {path} has an unknown setting {key!r}: {hint}")
        try:
            settings[name] = _convert(value, kinds[name])
        except TypeError:
            raise InputError(f"the recipe {path} sets {key} to {value!r}; {_spoken(kinds[name])} was wanted") from None
    return settings


def _convert(value: Any, kind: Any) -> Any:
    """A TOML value as the option's type; `TypeError` where it is none."""
    origin = get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        for choice in get_args(kind):
            if choice is not type(None):
                return _convert(value, choice)
    if origin is Literal:
        if value in get_args(kind):
            return value
        raise TypeError
    if origin is tuple:
        inner = [choice for choice in get_args(kind) if choice is not Ellipsis]
        if not isinstance(value, list):
            raise TypeError
        return tuple(_convert(entry, inner[0]) for entry in value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is Path and isinstance(value, str):
        return Path(value)
    if isinstance(kind, type) and isinstance(value, kind) and (kind is bool) == isinstance(value, bool):
        return value
    raise TypeError


def _spoken(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    return getattr(kind, "__name__", str(kind))
