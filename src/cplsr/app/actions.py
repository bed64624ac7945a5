"""Everything a visitor can do on the page, as the browser says it; nothing else is understood."""

from __future__ import annotations

from typing import Annotated, Literal

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


class RemoveClass(Action, frozen=True, tag="remove_class"):
    """Forget a class."""

    name: Name


class RenameClass(Action, frozen=True, tag="rename_class"):
    """Call a class something else."""

    name: Name
    new: Name


class RemoveExample(Action, frozen=True, tag="remove_example"):
    """Forget an example."""

    picture: Name


class MoveExample(Action, frozen=True, tag="move_example"):
    """An example belongs to another class."""

    picture: Name
    to: Name


class OpenExample(Action, frozen=True, tag="open_example"):
    """Show what can be done with an example; with the one that is shown, no longer."""

    picture: Name


class ShowExamples(Action, frozen=True, tag="show_examples"):
    """Show so many examples of a class."""

    name: Name
    count: Position


class Explain(Action, frozen=True, tag="explain"):
    """Why does a picture get its label?"""

    answer: Position


class Close(Action, frozen=True, tag="close"):
    """Enough of the explanation."""


class Correct(Action, frozen=True, tag="correct"):
    """Say what a picture is."""

    answer: Position
    right: Name


class Arrange(Action, frozen=True, tag="arrange"):
    """Which answers to show, in which order, and from which confidence on; what is not said stays."""

    sort: Sort | None = None
    only: Name | None = None
    page: Position | None = None
    threshold: Share | None = None


class Suggest(Action, frozen=True, tag="suggest"):
    """Which pictures are worth labeling next?"""


class Undo(Action, frozen=True, tag="undo"):
    """Take back the last step."""


class ClearAnswers(Action, frozen=True, tag="clear_answers"):
    """Forget the pictures that were labeled."""


class StartOver(Action, frozen=True, tag="start_over"):
    """Forget everything."""


class Speak(Action, frozen=True, tag="speak"):
    """Another language."""

    language: Language


class Download(Action, frozen=True, tag="download"):
    """Make a file to take home."""

    what: Literal["answers", "left_out", "labeled", "model", "browser"]


ANY = (
    Arrive | Teach | Label | RemoveClass | RenameClass | RemoveExample | MoveExample | OpenExample | ShowExamples
    | Explain | Close | Correct | Arrange | Suggest | Undo | ClearAnswers | StartOver | Speak | Download
)  # fmt: skip


def understood(told: object) -> Action:
    """Read what a browser says, or raise `msgspec.ValidationError`; numbers may be text, as HTML attributes are."""
    return msgspec.convert(told, ANY, strict=False)
