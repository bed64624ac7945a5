"""What of a session a visitor looks at: language, order, selection, threshold, page; nothing here changes an answer."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

from cplsr.app.actions import Language, Name, Position, Share, Sort
from cplsr.app.session import Query, Session, query_at, suggestions
from cplsr.app.texts import TextError, say
from cplsr.classifier.no_class import UNKNOWN

PAGE = 48
UNUSUAL = 0.95
"""Only one in twenty pictures of the same kind scores higher; see `out_of_domain_score`."""
CLASS = "class:"
Test = Callable[[Query], bool]


@final
@dataclass(frozen=True)
class View:
    """How the page looks for one visitor.

    only: which answers are shown: empty for all, a key of `selections`, or `class:` and a name.
    threshold: answers that are less sure are unknown. opened: the answer that is explained.
    example: the support picture that is about to be moved or removed. expanded: a class, and how many of its examples
    are shown. next: names of pictures to label next, the one that teaches most first, each with the reason.
    """

    language: Language = "en"
    sort: Sort = "newest"
    only: str = ""
    page: int = 0
    threshold: float = 0.0
    opened: int | None = None
    example: str = ""
    expanded: tuple[str, int] = ("", 0)
    next: tuple[tuple[str, str], ...] = ()

    def say(self, key: str, **values: Any) -> str:
        """A text of the page as HTML; what goes into its gaps is escaped."""
        safe = {name: html.escape(value) if isinstance(value, str) else value for name, value in values.items()}
        return say(self.language, key, **safe)

    def is_unknown(self, query: Query) -> bool:
        """Whether an answer is too unsure to count."""
        return query.answer is not None and query.confidence < self.threshold


def is_unusual(query: Query) -> bool:
    """Whether a picture is unlike all examples."""
    return query.corrected is None and query.answer is not None and (query.answer.out_of_domain or 0.0) >= UNUSUAL


def selections(view: View) -> dict[str, Test]:
    """Kinds of answers that can be looked at alone, besides classes; another kind is another line here."""
    return {
        "unknown": view.is_unknown,
        "unusual": is_unusual,
        "corrected": lambda query: query.corrected is not None,
        "next": lambda query: query.picture.name in dict(view.next),
    }


def arranged(session: Session, view: View) -> list[int]:
    """Positions of the answers to show, in the order to show them, over all pages."""
    if view.only.startswith(CLASS):
        name = view.only.removeprefix(CLASS)
        test: Test = lambda query: query.label == name and not view.is_unknown(query)  # noqa: E731
    else:
        test = selections(view).get(view.only, lambda query: True)
    queries = session.queries
    rank = {name: number for number, (name, _) in enumerate(view.next)}
    keys: dict[Sort, Callable[[int], Any]] = {
        "newest": lambda p: -p,
        "surest": lambda p: -queries[p].confidence,
        "doubtful": lambda p: queries[p].confidence,
        "name": lambda p: queries[p].picture.name,
        "class": lambda p: (view.is_unknown(queries[p]), queries[p].label, -queries[p].confidence),
        "next": lambda p: rank.get(queries[p].picture.name, len(rank)),
    }
    return sorted((position for position, query in enumerate(queries) if test(query)), key=keys[view.sort])


def pages(answers: int) -> int:
    """How many pages there are, one at least."""
    return max(1, -(-answers // PAGE))


def arrange(
    session: Session,
    view: View,
    sort: Sort | None = None,
    only: Name | None = None,
    page: Position = 0,
    threshold: Share | None = None,
) -> View:
    """Show answers in another order, other ones, or those from a confidence on; what is not said stays."""
    if threshold and UNKNOWN in session.classes:  # it would mean two things
        raise TextError("class_called_unknown", name=UNKNOWN)
    asked: dict[str, Any] = {"sort": sort, "only": only, "threshold": threshold}
    return replace(view, page=page, **{name: value for name, value in asked.items() if value is not None})


def suggest(session: Session, view: View) -> View:
    """Show the pictures that are worth labeling next."""
    return replace(view, only="next", sort="next", page=0, next=suggestions(session))


def explain(session: Session, view: View, answer: Position) -> View:
    """Show why a picture gets its label; of the one that is shown, no longer."""
    query_at(session, answer)
    return replace(view, opened=None if view.opened == answer else answer)


def open_example(session: Session, view: View, picture: Name) -> View:
    """Show what can be done with an example; with the one that is shown, no longer."""
    return replace(view, example="" if view.example == picture else picture)


def close(session: Session, view: View) -> View:
    """Show what belongs to no single picture any more."""
    return replace(view, opened=None, example="")


def show_examples(session: Session, view: View, name: Name, count: Position) -> View:
    """Show so many examples of a class."""
    return replace(view, expanded=(name, count))


def speak(session: Session, view: View, language: Language) -> View:
    """Another language."""
    return replace(view, language=language)
