"""One visitor's classes and answers, and everything that can be done with them; no web library here.

A session is never changed: an action gives a new one, so that an error leaves everything as it was, two visitors cannot
touch each other's classes, and the last step can be taken back.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final
from uuid import uuid4
from weakref import WeakSet

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from cplsr.app.uploads import Limits, Picture, Received, receive
from cplsr.backbones.backbone import Backbone
from cplsr.classifier.backbone_choice import FROZEN
from cplsr.classifier.explanation import Explanation
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.classifier.pictures import unlabeled_pictures
from cplsr.classifier.prediction import Prediction
from cplsr.classifier.support_report import SupportReport
from cplsr.data.domain import Domain
from cplsr.errors import InputError

NEIGHBORS = 5
FEWEST_CLASSES = 2
"""With a single class every answer is the same."""


@final
@dataclass(frozen=True, eq=False)
class Shared:
    """What all visitors share, and only read: the network with its adapter, and how much they may bring.

    start: the saved classifier that every visitor begins with, if any.
    lock: held while the backbone computes, so that visitors take turns instead of slowing each other down.
    kept: pictures of all visitors that are in memory; each is dropped when no session has it any more.
    """

    backbone: Backbone
    start: FewShotClassifier | None = None
    limits: Limits = field(default_factory=Limits)
    lock: Any = field(default_factory=threading.Lock)
    kept: WeakSet[Picture | Example] = field(default_factory=WeakSet)

    def new_classifier(self) -> FewShotClassifier:
        """Make a classifier without classes, on the shared weights."""
        adapter = FROZEN if self.backbone.adapter is None else None
        settings = {} if self.start is None else {k: getattr(self.start, k) for k in ("head", "pooling", "temperature")}
        return FewShotClassifier(self.backbone, adapter, workers=0, **settings)


@final
@dataclass(frozen=True, eq=False)
class Example:
    """What is kept of a support picture: a thumbnail to show, and a digest by which the same picture is noticed."""

    thumbnail: bytes
    digest: str


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


@final
@dataclass(frozen=True, eq=False)
class Session:
    """One visitor's classes, examples and answers, the oldest first.

    key: a name for the visitor's folder of downloads that nobody can guess.
    classifier: what labels the pictures; `None` without classes.
    examples: support pictures by their name in the classifier; a saved model keeps none, so its own are missing.
    unreadable: (name, reason) of files that were to be labeled but cannot be read.
    before: the session as it was one step ago.
    """

    shared: Shared
    key: str
    classifier: FewShotClassifier | None = None
    examples: Mapping[str, Example] = field(default_factory=dict)
    queries: tuple[Query, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()
    before: Session | None = None

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

    def examples_of(self, name: str) -> list[tuple[str, Example | None]]:
        """Names of a class's support pictures, each with what is kept of it."""
        if self.classifier is None:
            return []
        labels = self.classifier.classes_[self.classifier.head_.support_labels_].tolist()
        pairs = zip(self.classifier.support_names_, labels, strict=True)
        return [(picture, self.examples.get(picture)) for picture, label in pairs if str(label) == name]


@final
@dataclass(frozen=True, eq=False)
class Outcome:
    """The session after an action, and sentences that the visitor should read."""

    session: Session
    remarks: tuple[str, ...] = ()


def new_session(shared: Shared) -> Session:
    """Make the session of a visitor who has just arrived."""
    return Session(shared, uuid4().hex, shared.start)


def add_class(session: Session, name: str, files: Sequence[Path]) -> Outcome:
    """Add a class from a few image files, or more of them to a class that is there."""
    limits = session.shared.limits
    name = _checked_name(name, limits)
    if not files:
        raise InputError(f"There are no pictures for {name!r} yet: drop a few on the field first.")
    if name not in session.classes and len(session.classes) >= limits.classes:
        raise InputError(f"There are {limits.classes} classes already, which is the most: remove one first.")
    received = _receive(session, files)
    fresh, repeated = _without_repeats(received.pictures, session.examples)
    if not fresh:
        reasons = " ".join((*received.remarks(), *repeated))
        raise InputError(f"Nothing was added to {name!r}. {reasons}")
    if sum(session.classes.values()) + len(fresh) > limits.examples:
        raise InputError(f"A model takes {limits.examples:,} examples here: remove a class, or drop fewer pictures.")
    return _step(session, (*received.remarks(), *repeated), **_learned(session, name, fresh))


def remove_class(session: Session, name: str) -> Outcome:
    """Forget a class and its examples; pictures that were corrected to it get the classifier's answer again."""
    _check_class(session, name)
    gone = {picture for picture, _ in session.examples_of(name)}
    classifier = None
    if session.classifier is not None and len(session.classes) > 1:
        classifier = _fork(session.classifier)
        classifier.remove_class(_label(classifier, name))
    return _step(
        session,
        classifier=classifier,
        examples={picture: example for picture, example in session.examples.items() if picture not in gone},
        queries=tuple(replace(q, corrected=None) if q.corrected == name else q for q in session.queries),
    )


def classify(session: Session, files: Sequence[Path]) -> Outcome:
    """Label image files; the answers join those that are there."""
    limits = session.shared.limits
    classifier = session.classifier
    if classifier is None or not session.is_ready:
        raise InputError("There is nothing to choose between yet: add at least two classes first.")
    if len(session.queries) + min(len(files), limits.files_per_drop) > limits.answers:
        raise InputError(f"The page holds {limits.answers:,} answers: download them, then clear the list.")
    received = _receive(session, files)
    queries: tuple[Query, ...] = ()
    if received.pictures:
        with session.shared.lock:
            vectors = classifier.embed(_as_domain(received.pictures))
        queries = tuple(Query(picture, vector) for picture, vector in zip(received.pictures, vectors, strict=True))
    unreadable = session.unreadable + received.unreadable
    return _step(session, received.remarks(), queries=session.queries + queries, unreadable=unreadable)


def correct(session: Session, position: int, name: str) -> Outcome:
    """Make query number `position` an example of the class a visitor gives it; all answers are made again."""
    query = query_at(session, position)
    _check_class(session, name)
    if query.corrected is not None:
        raise InputError(f"{query.picture.name} is an example of {query.corrected!r} already: undo that first.")
    twin = _twin(query.picture, session.examples)
    if twin is not None:
        raise InputError(f"{query.picture.name} is the same picture as the example {twin}: nothing is learned from it.")
    if sum(session.classes.values()) >= session.shared.limits.examples:
        raise InputError(f"A model takes {session.shared.limits.examples:,} examples here: remove a class first.")
    queries = list(session.queries)
    queries[position] = replace(query, corrected=name)
    return _step(session, queries=tuple(queries), **_learned(session, name, (query.picture,)))


def clear_answers(session: Session) -> Outcome:
    """Forget the pictures that were labeled; those that became examples stay examples."""
    return _step(session, queries=(), unreadable=())


def start_over(session: Session) -> Outcome:
    """Go back to how everything was on arrival."""
    return _step(session, classifier=session.shared.start, examples={}, queries=(), unreadable=())


def undo(session: Session) -> Outcome:
    """Take back the last action."""
    if session.before is None:
        raise InputError("There is nothing to take back: only the last step can be undone.")
    return Outcome(session.before)


def explain(session: Session, position: int) -> Explanation:
    """Explain why query number `position` gets its label."""
    query = query_at(session, position)
    if session.classifier is None:
        raise InputError("There are no classes, so there is nothing to explain: add at least two.")
    with session.shared.lock:
        return session.classifier.explain(query.picture.square, neighbors=NEIGHBORS)


def support_report(session: Session) -> SupportReport | None:
    """Report what to expect of the classifier; `None` before there are classes to choose between."""
    if session.classifier is None or not session.is_ready:
        return None
    return session.classifier.evaluate_support()


def query_at(session: Session, position: int) -> Query:
    """Find the picture at a position that a browser sent, which may be wrong."""
    if not 0 <= position < len(session.queries):
        raise InputError("That picture is not in the list any more: choose another one.")
    return session.queries[position]


def _receive(session: Session, files: Sequence[Path]) -> Received:
    shared = session.shared
    if len(shared.kept) + min(len(files), shared.limits.files_per_drop) > shared.limits.pictures_of_all:
        raise InputError("There are too many pictures of all visitors here: clear your answers, or come back later.")
    received = receive(files, shared.backbone.image_size, shared.limits, _taken(session))
    shared.kept.update(received.pictures)
    return received


def _step(session: Session, remarks: tuple[str, ...] = (), **changes: Any) -> Outcome:
    """The session with changes, which can be taken back, and with every picture labeled by the classes it has now."""
    changed = replace(session, **changes, before=replace(session, before=None))
    return Outcome(_answered(changed), remarks)


def _learned(session: Session, name: str, pictures: tuple[Picture, ...]) -> dict[str, Any]:
    """What changes in a session when its classifier learns pictures of a class."""
    if session.classifier is None:
        classifier, label = session.shared.new_classifier(), name
    else:
        classifier = _fork(session.classifier)
        label = _label(classifier, name)
    with session.shared.lock:
        classifier.partial_fit(_as_domain(pictures), [label] * len(pictures))
    added = {picture.name: Example(picture.thumbnail, picture.digest) for picture in pictures}
    session.shared.kept.update(added.values())
    return {"classifier": classifier, "examples": {**session.examples, **added}}


def _answered(session: Session) -> Session:
    """The same session with every picture labeled by the classes as they are now; no picture is embedded again."""
    if not session.queries:
        return session
    if session.classifier is None or not session.is_ready:
        return replace(session, queries=tuple(replace(query, answer=None) for query in session.queries))
    vectors = np.stack([query.vector for query in session.queries])
    answers = [answer for batch in session.classifier.predictions(vectors) for answer in batch]
    return replace(
        session,
        queries=tuple(
            replace(query, answer=replace(answer, name=query.picture.name))
            for query, answer in zip(session.queries, answers, strict=True)
        ),
    )


def _fork(classifier: FewShotClassifier) -> FewShotClassifier:
    """A classifier that can learn without the first one noticing; the backbone is the same."""
    fork = copy.copy(classifier)
    fork.head_ = copy.deepcopy(classifier.head_)
    return fork


def _as_domain(pictures: tuple[Picture, ...]) -> Domain:
    return unlabeled_pictures([picture.name for picture in pictures], [picture.square for picture in pictures])


def _label(classifier: FewShotClassifier, name: str) -> Any:
    """The class as the classifier has it (a saved one may have numbers), or the name itself where it is new."""
    return next((label for label in classifier.classes_.tolist() if str(label) == name), name)


def _taken(session: Session) -> set[str]:
    support = () if session.classifier is None else session.classifier.support_names_
    return {*support, *(query.picture.name for query in session.queries)}


def _twin(picture: Picture, examples: Mapping[str, Example]) -> str | None:
    return next((name for name, example in examples.items() if example.digest == picture.digest), None)


def _without_repeats(
    pictures: tuple[Picture, ...], examples: Mapping[str, Example]
) -> tuple[tuple[Picture, ...], tuple[str, ...]]:
    """Pictures that are no examples yet: one that comes twice would recognize itself and make the estimate too good."""
    seen = {example.digest: name for name, example in examples.items()}
    fresh, repeated = [], []
    for picture in pictures:
        if picture.digest in seen:
            repeated.append(f"{picture.name} is the same picture as {seen[picture.digest]} and was left out.")
        else:
            seen[picture.digest] = picture.name
            fresh.append(picture)
    return tuple(fresh), tuple(repeated)


def _checked_name(name: str, limits: Limits) -> str:
    tidied = " ".join(name.split())
    if not tidied:
        raise InputError("The class has no name yet: type one, for example 'ripe'.")
    if len(tidied) > limits.name_letters or not tidied.isprintable():
        raise InputError(f"That is no good name for a class: give one of at most {limits.name_letters} letters.")
    return tidied


def _check_class(session: Session, name: str) -> None:
    if name not in session.classes:
        raise InputError(f"There is no class {name!r}: the classes are {', '.join(session.classes) or 'none so far'}.")
