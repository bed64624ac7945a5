"""Paths as others may see them: files that are passed on tell nothing of the folders of those who made them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_ROOT = r"(?:[A-Za-z]:)?[\\/](?![\\/])"
"""How an absolute path begins, here and on Windows; that of a network address begins with two slashes."""
_PATH = re.compile(rf"(?<![^\s'\"(=:,]){_ROOT}[^\s'\"),]+")


def public_path(path: Path | str) -> str:
    """A path from the working folder if it is below it, else its last two parts."""
    whole, here = Path(path).resolve(), Path.cwd()
    if whole != here and whole.is_relative_to(here):
        return whole.relative_to(here).as_posix()
    return "/".join(whole.parts[1:][-2:]) or whole.anchor


def public_command(arguments: list[str]) -> str:
    """A command line to be kept, its absolute paths shortened, those behind NAME= too."""
    return shlex.join(_shortened(argument) for argument in arguments)


def public(value: T) -> T:
    """Plain data with every absolute path in its texts shortened; names of entries stay as they are."""
    if isinstance(value, str):
        return _shortened(value)  # type: ignore[return-value]
    if isinstance(value, dict):
        return {key: public(entry) for key, entry in value.items()}  # type: ignore[return-value]
    if isinstance(value, list | tuple):
        return type(value)(public(entry) for entry in value)  # type: ignore[return-value, call-arg]
    return value


def _shortened(text: str) -> str:
    """A text that is a path, or NAME=path, as a whole, so that the path may hold spaces; else the paths inside it."""
    name, _, rest = text.rpartition("=") if not re.match(_ROOT, text) else ("", "", text)
    if re.match(_ROOT, rest) and "\n" not in text and " " not in name:
        return f"{name}={public_path(rest)}" if name else public_path(rest)
    return _PATH.sub(lambda match: public_path(match[0]), text)
