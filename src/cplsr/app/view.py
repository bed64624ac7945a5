"""What of a session a visitor looks at: language, order, selection, threshold, page; nothing here changes an answer."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from cplsr.app.actions import Language, Sort
from cplsr.app.session import Query, Session
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


def check_threshold(session: Session, threshold: float) -> None:
    """Raise `TextError` where `unknown` would mean two things."""
    if threshold > 0 and UNKNOWN in session.classes:
        raise TextError("class_called_unknown", name=UNKNOWN)
