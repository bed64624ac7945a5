"""What a visitor does on the page, as the browser says it; `page.ANY` is all that is understood."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Annotated, Any, Literal, get_type_hints

import msgspec

Name = Annotated[str, msgspec.Meta(max_length=300)]
Key = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}$")]
Position = Annotated[int, msgspec.Meta(ge=0, lt=1_000_000_000)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Sort = Literal["newest", "surest", "doubtful", "name", "class", "next"]
Reason = Literal[
    "too_large", "not_picture", "not_taken", "not_stored", "no_cookies", "too_much_an_hour",
    "too_many_answers", "too_many_examples", "too_many_classes", "too_many_of_all", "nothing_to_choose",
]  # fmt: skip
"""Texts of the page."""
LANGUAGES = ("en", "de")
Language = Literal["en", "de"]


class Action(msgspec.Struct, frozen=True, tag_field="do"):
    """Something a visitor does."""


class Arrive(Action, frozen=True, tag="arrive"):
    """The page was opened. key: of the session that the browser remembers, if any."""

    key: Key | None = None
    language: Language = "en"


class Refused(msgspec.Struct, frozen=True):
    """A file that the browser did not send, or the server did not take, and why."""

    name: Name
    reason: Reason


class Uploads(Action, frozen=True, kw_only=True):
    """Files have arrived.

    drop: the same for all parts of what was dropped at once, which are undone together.
    more: other parts follow; what takes long to find out has time until then.
    """

    files: Annotated[list[str], msgspec.Meta(max_length=1000)] = []
    refused: Annotated[list[Refused], msgspec.Meta(max_length=10_000)] = []
    drop: Annotated[str, msgspec.Meta(max_length=40)] = ""
    more: bool = False


class Teach(Uploads, frozen=True, tag="teach"):
    """Files are examples of a class."""

    name: Name


class Label(Uploads, frozen=True, tag="label"):
    """Files are to be labeled."""


class Download(Action, frozen=True, tag="download"):
    """Make a file to take home."""

    what: Literal["answers", "left_out", "labeled", "model", "browser"]


def action_of(function: Callable[..., Any]) -> type[Action]:
    """What a browser says to have a function called: its name, and its arguments as they are declared there."""
    kinds = get_type_hints(function, include_extras=True)
    fields: list[tuple[str, Any, Any]] = [
        (name, kinds[name], msgspec.NODEFAULT if argument.default is argument.empty else argument.default)
        for name, argument in signature(function).parameters.items()
        if name not in ("session", "view")
    ]
    name = function.__name__
    return msgspec.defstruct(name, fields, bases=(Action,), frozen=True, tag=name)  # type: ignore[return-value]
