"""One visitor's classes and answers, and what can be asked of them; no web library here."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from cplsr.app.texts import Said, TextError
from cplsr.app.uploads import Limits, Picture
from cplsr.backbones.backbone import Backbone
from cplsr.classifier.backbone_choice import FROZEN
from cplsr.classifier.explanation import Explanation
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.classifier.prediction import Prediction
from cplsr.classifier.support_report import SupportReport

NEIGHBORS = 5
FEWEST_CLASSES = 2
"""With a single class every answer is the same."""
SUGGESTED = 10
"""So many pictures are suggested at a time."""


@final
@dataclass(frozen=True, eq=False)
class Shared:
    """What all visitors share, and only read: the network with its adapter, and how much they may bring.

    start: the saved classifier that every visitor begins with, if any.
    folder: where the files of pictures are kept as long as a session has them; `None` leaves them where they are.
    lock: held while the backbone computes, so that visitors take turns instead of slowing each other down.
    kept: pictures of all visitors that are in memory; each is dropped when no session has it any more.
    reports: what was found out about classifiers that are still in use.
    """

    backbone: Backbone
    start: FewShotClassifier | None = None
    limits: Limits = field(default_factory=Limits)
    folder: Path | None = None
    lock: Any = field(default_factory=threading.Lock)
    kept: WeakSet[Picture] = field(default_factory=WeakSet)
    reports: WeakKeyDictionary[FewShotClassifier, SupportReport] = field(default_factory=WeakKeyDictionary)

    def new_classifier(self) -> FewShotClassifier:
        """Make a classifier without classes, on the shared weights."""
        adapter = FROZEN if self.backbone.adapter is None else None
        settings = {} if self.start is None else {k: getattr(self.start, k) for k in ("head", "pooling", "temperature")}
        return FewShotClassifier(self.backbone, adapter, workers=0, **settings)


@final
@dataclass(frozen=True, eq=False)
class Query:
    """A picture to label, and its embedding.

    answer: what the classifier says; `None` without classes to choose between.
    corrected: the class the visitor gave it instead, if any.
    """

    picture: Picture
    vector: Float32[ndarray, "dim"]
    answer: Prediction | None = None
    corrected: str | None = None

    @property
    def label(self) -> str:
        """The visitor's class, else the classifier's; empty where there is neither."""
        return self.corrected or ("" if self.answer is None else self.answer.label)

    @property
    def confidence(self) -> float:
        """How sure the label is, 0 to 1; a visitor is sure."""
        if self.corrected is not None:
            return 1.0
        return 0.0 if self.answer is None or self.answer.confidence is None else self.answer.confidence


@final
@dataclass(frozen=True)
class LeftOut:
    """A file that was not used, and why. query: whether it was to be labeled."""

    name: str
    reason: Said
    query: bool


@final
@dataclass(frozen=True, eq=False)
class Session:
    """One visitor's classes, examples and answers, the oldest first.

    classifier: what labels the pictures; `None` without classes.
    examples: support pictures by their name in the classifier; a saved model keeps none, so its own are missing.
    left_out: files that were not used.
    drop: what was dropped last, of which more parts may come.
    past: the session as it was before each of the last steps, the latest last.
    """

    shared: Shared
    classifier: FewShotClassifier | None = None
    examples: Mapping[str, Picture] = field(default_factory=dict)
    queries: tuple[Query, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    drop: str = ""
    past: tuple[Session, ...] = ()

    @property
    def classes(self) -> dict[str, int]:
        """Class names in order, with the number of their examples."""
        if self.classifier is None:
            return {}
        names = [str(name) for name in self.classifier.classes_.tolist()]
        return dict(zip(names, self.classifier.counts_.tolist(), strict=True))

    @property
    def is_ready(self) -> bool:
        """Whether there are classes to choose between."""
        return len(self.classes) >= FEWEST_CLASSES

    @property
    def labels(self) -> dict[str, str]:
        """The class of every support picture, by its name."""
        if self.classifier is None:
            return {}
        labels = self.classifier.classes_[self.classifier.head_.support_labels_].tolist()
        return {name: str(label) for name, label in zip(self.classifier.support_names_, labels, strict=True)}

    def examples_of(self, name: str) -> list[tuple[str, Picture | None]]:
        """Names of a class's support pictures, each with what is kept of it."""
        return [(picture, self.examples.get(picture)) for picture, label in self.labels.items() if label == name]


def new_session(shared: Shared) -> Session:
    """Make the session of a visitor who has just arrived."""
    return Session(shared, shared.start)


def explain(session: Session, position: int) -> Explanation:
    """Explain why query number `position` gets its label."""
    query = query_at(session, position)
    if session.classifier is None:
        raise TextError("nothing_to_explain")
    with session.shared.lock:
        return session.classifier.explain(query.picture.square(), neighbors=NEIGHBORS)


def suggestions(session: Session, count: int = SUGGESTED) -> tuple[tuple[str, str], ...]:
    """Names of the pictures whose labels would teach most, the best first, each with the reason."""
    open_ones = [query for query in session.queries if query.corrected is None]
    if session.classifier is None or not session.is_ready:
        raise TextError("nothing_to_choose")
    if not open_ones:
        raise TextError("all_given")
    suggested = session.classifier.suggest(np.stack([query.vector for query in open_ones]), count)
    return tuple((open_ones[each.index].picture.name, each.reason) for each in suggested)


def support_report(session: Session) -> SupportReport | None:
    """Report what to expect of the classifier; `None` before there are classes to choose between."""
    if session.classifier is None or not session.is_ready:
        return None
    reports = session.shared.reports
    if session.classifier not in reports:
        reports[session.classifier] = session.classifier.evaluate_support()
    return reports[session.classifier]


def query_at(session: Session, position: int) -> Query:
    """Find the picture at a position that a browser sent, which may be wrong."""
    if not 0 <= position < len(session.queries):
        raise TextError("no_such_answer")
    return session.queries[position]
