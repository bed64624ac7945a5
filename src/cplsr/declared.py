"""From plain data (options, TOML, JSON) to declared dataclasses, with a sentence for whatever does not fit.

A dataclass is the only declaration of a setting or of a file's content: its types, `Literal` choices and ranges
(`Annotated[int, between(1, 100)]`) are what is checked, wherever the values come from.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import json
import math
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from cplsr.errors import InputError

T = TypeVar("T")
S = TypeVar("S", bound="Declared")


def between(low: int | float, high: int | float) -> msgspec.Meta:
    """Declare the range of a number, both ends included, as in `Annotated[int, between(1, 100)]`."""
    return msgspec.Meta(ge=low, le=high)


def above(low: int | float, high: int | float) -> msgspec.Meta:
    """Declare the range of a number that is larger than `low` and at most `high`."""
    return msgspec.Meta(gt=low, le=high)


def fit(value: Any, kind: Any, name: str) -> Any:
    """Convert plain data, as options, TOML and JSON give it, to a type; lists become tuples and tables dataclasses.

    The type may have `Literal` choices and ranges; `name` is what an error calls the value.

    Raises:
        InputError: the value does not fit.

    Example:
        >>> from typing import Annotated
        >>> fit([1, 2], tuple[int, ...], "shots")
        (1, 2)
        >>> fit(0, Annotated[int, between(1, 100)], "way")
        Traceback (most recent call last):
        cplsr.errors.InputError: way is 0: give a whole number of at least 1
    """
    if getattr(value, "shape", None) == ():  # a number of numpy or torch
        value = value.item()
    try:
        fitted = msgspec.convert(value, kind, dec_hook=_other_kinds)
    except msgspec.ValidationError as error:
        raise InputError(f"{name} is {_shown(value)}: {_wanted(error, kind)}") from None
    for number in fitted if isinstance(fitted, list | tuple) else (fitted,):
        if isinstance(number, float) and not math.isfinite(number):
            raise InputError(f"{name} is {_shown(value)}: give a finite number")
    return fitted


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which of the known names was probably meant, or list them all.

    Example:
        >>> nearest("coalecsent", ["coalescent", "lora"])
        "did you mean 'coalescent'?"
    """
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"give one of {', '.join(known)}" if known else "there are none"


class Declared:
    """Base of the dataclasses that hold settings: every value is checked against the declaration of its field."""

    def __post_init__(self) -> None:
        """Check every field; whole numbers become floats and lists tuples where the declaration says so."""
        for name, kind in kinds_of(type(self)).items():
            object.__setattr__(self, name, fit(getattr(self, name), kind, name))

    @classmethod
    def of(cls: type[S], options: object, **changes: Any) -> S:
        """Take the settings that another object has under the same names, with some of them changed."""
        return cls(**{name: getattr(options, name) for name in kinds_of(cls) if name not in changes} | changes)

    @classmethod
    def from_table(cls: type[S], table: Mapping[str, Any], source: str) -> S:
        """Make settings from a table of a TOML or JSON file; what it leaves out keeps its default.

        Raises:
            InputError: an unknown name or a value that does not fit; `source` says where it stands.
        """
        return cls(**fit_table(table, kinds_of(cls), source))

    def as_dict(self) -> dict[str, Any]:
        """Return all values by name, tuples as lists, which is how files hold them."""
        values = {name: getattr(self, name) for name in kinds_of(type(self))}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def fit_arguments(maker: Callable[..., Any], values: Mapping[str, Any], source: str, *own: str) -> dict[str, Any]:
    """Convert values to the declared types of a maker's arguments; those named in `own` cannot be given."""
    if isinstance(maker, type) and "__dataclass_fields__" in vars(maker):
        return fit_table(values, kinds_of(maker), source, "option")
    hints = typing.get_type_hints(getattr(maker, "__init__") if isinstance(maker, type) else maker, include_extras=True)  # noqa: B009
    kinds = {name: hints.get(name, Any) for name in inspect.signature(maker).parameters if name not in own}
    return fit_table(values, kinds, source, "option")


def fit_table(table: Mapping[str, Any], kinds: Mapping[str, Any], source: str, noun: str = "setting") -> dict[str, Any]:
    """Convert the values of a table to the types declared for their names; hyphens in names count as underscores."""
    values = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in kinds:
            raise InputError(f"{source} has an unknown {noun} {key!r}: {nearest(name, kinds)}")
        try:
            values[name] = fit(value, kinds[name], key)
        except InputError as error:
            raise InputError(f"{source}: {error}") from None
    return values


def parse_options(texts: Iterable[str], what: str, example: str) -> dict[str, Any]:
    """Read `name=value` pairs; a value is a number, a list or true/false where it reads as one, else text.

    For the message, `what` is whose options they are, and `example` a right one.

    Raises:
        InputError: a pair is incomplete.
    """
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise InputError(f"{what} option {text!r} is incomplete: give name=value, for example {example}")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def kinds_of(cls: type) -> dict[str, Any]:
    """Return the types of a dataclass's fields by name, with their ranges."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def read_record(path: Path | str, kind: type[T], what: str) -> T:
    """Read a JSON file as the dataclass that declares its content.

    `what` is the content in words, with what writes it, for example "a run (written by `cplsr train`)".

    Raises:
        InputError: the file cannot be read, is no JSON, or does not fit; the sentence says what is wrong where.
    """
    return _read(path, what, lambda content: msgspec.json.decode(content, type=kind))


def read_lines(path: Path | str, kind: type[T], what: str) -> list[T]:
    """Read a file of one JSON record a line, as `read_record` does; the lines count from 0 in its sentences."""
    return _read(path, what, msgspec.json.Decoder(kind).decode_lines)


def _read(path: Path | str, what: str, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(Path(path).read_bytes())
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): give the path of {what}") from None
    except msgspec.ValidationError as error:
        raise InputError(f"{path} is not {what}: {_wanted(error)}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no JSON or is damaged ({error}): give the path of {what}") from None


def _other_kinds(kind: type, value: Any) -> Any:
    """Values of kinds that the library does not know itself: paths, which files hold as text."""
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    raise msgspec.ValidationError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


_TYPES = {
    "bool": "true or false",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
_LIMITS = {" >= ": " of at least ", " <= ": " of at most ", " > ": " above ", " < ": " below "}


def _wanted(error: msgspec.ValidationError, kind: Any = None) -> str:
    """The library's message in plain words: what was wanted, what was given instead, where."""
    choices = [repr(choice) for choice in _choices(kind) if choice is not None]
    if choices and str(error).startswith("Invalid enum value"):
        return f"give {', '.join(choices[:-1])} or {choices[-1]}"
    text = re.sub(r"`([a-z]+(?: \| [a-z]+)*)`", _in_words, str(error)).replace(" - at `$", " at `")
    for sign, phrase in _LIMITS.items():
        text = text.replace(sign, phrase)
    text = re.sub(r"Expected (.*?), got (.*?)(?= at `|$)", r"\1 was wanted, not \2", text)
    text = re.sub(r"Expected ", "give ", text)
    text = re.sub(r"(\d)\.0\b", r"\1", text)
    text = text.replace(" at `.", ", in ").replace(" at `[", ", in [").replace("`", "")
    return text[:1].lower() + text[1:]


def _in_words(types: re.Match[str]) -> str:
    return " or ".join(_TYPES.get(name, name) for name in types[1].split(" | "))


def _choices(kind: Any) -> list[Any]:
    """All values of the `Literal` types inside a type."""
    if typing.get_origin(kind) is typing.Literal:
        return list(typing.get_args(kind))
    return [choice for inner in typing.get_args(kind) for choice in _choices(inner)]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
