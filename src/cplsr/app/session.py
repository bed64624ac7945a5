"""One visitor's classes and answers, and everything that can be done with them; no web library here.

A session is never changed: an action gives a new one, so that an error leaves everything as it was, two visitors cannot
touch each other's classes, and steps can be taken back.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
from jaxtyping import Float32
from numpy import ndarray

from cplsr.app.texts import Said, TextError
from cplsr.app.uploads import Limits, Picture, Received, receive
from cplsr.backbones.backbone import Backbone
from cplsr.classifier.backbone_choice import FROZEN
from cplsr.classifier.explanation import Explanation
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.classifier.pictures import unlabeled_pictures
from cplsr.classifier.prediction import Prediction
from cplsr.classifier.support_report import SupportReport
from cplsr.data.domain import Domain

NEIGHBORS = 5
FEWEST_CLASSES = 2
"""With a single class every answer is the same."""
STEPS_BACK = 20
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


@final
@dataclass(frozen=True, eq=False)
class Outcome:
    """The session after an action, and sentences that the visitor should read."""

    session: Session
    remarks: tuple[Said, ...] = ()


def new_session(shared: Shared) -> Session:
    """Make the session of a visitor who has just arrived."""
    return Session(shared, shared.start)


def add_class(session: Session, name: str, files: Sequence[Path], drop: str = "") -> Outcome:
    """Add a class from a few image files, or more of them to a class that is there.

    drop: names what the files are a part of; parts of the same drop are undone together.
    """
    limits = session.shared.limits
    name = _checked_name(name, limits)
    if not files:
        raise TextError("no_pictures", name=name)
    if name not in session.classes and len(session.classes) >= limits.classes:
        raise TextError("too_many_classes", most=limits.classes)
    received = _receive(session, files)
    fresh, repeated = _without_repeats(received.pictures, session.examples.values())
    if sum(session.classes.values()) + len(fresh) > limits.examples:
        raise TextError("too_many_examples", most=limits.examples)
    left_out = _left_out(received, repeated, query=False)
    if not fresh:
        return _step(session, drop, left_out=session.left_out + left_out)
    return _step(session, drop, left_out=session.left_out + left_out, **_learned(session, name, fresh))


def remove_class(session: Session, name: str) -> Outcome:
    """Forget a class and its examples; pictures that were corrected to it get the classifier's answer again."""
    _check_class(session, name)
    return _relabeled(session, {picture: None for picture, _ in session.examples_of(name)})


def rename_class(session: Session, name: str, new: str) -> Outcome:
    """Call a class something else."""
    _check_class(session, name)
    new = _checked_name(new, session.shared.limits)
    if new in session.classes:
        raise TextError("name_taken", name=new)
    return _relabeled(session, {picture: new for picture, _ in session.examples_of(name)})


def remove_example(session: Session, picture: str) -> Outcome:
    """Forget one example; with the last one, its class."""
    _check_example(session, picture)
    return _relabeled(session, {picture: None})


def move_example(session: Session, picture: str, name: str) -> Outcome:
    """Say that an example is of another class."""
    _check_example(session, picture)
    _check_class(session, name)
    return _relabeled(session, {picture: name})


def classify(session: Session, files: Sequence[Path], drop: str = "") -> Outcome:
    """Label image files; the answers join those that are there. drop: as in `add_class`."""
    limits = session.shared.limits
    classifier = session.classifier
    if classifier is None or not session.is_ready:
        raise TextError("nothing_to_choose")
    if len(session.queries) + len(files) > limits.answers:
        raise TextError("too_many_answers", most=limits.answers)
    received = _receive(session, files)
    known = (query.picture for query in session.queries)
    fresh, repeated = _without_repeats(received.pictures, known)
    queries: tuple[Query, ...] = ()
    if fresh:
        with session.shared.lock:
            vectors = classifier.embed(_as_domain(fresh))
        queries = tuple(Query(picture, vector) for picture, vector in zip(fresh, vectors, strict=True))
    left_out = session.left_out + _left_out(received, repeated, query=True)
    return _step(session, drop, queries=session.queries + queries, left_out=left_out)


def refuse(session: Session, files: Sequence[tuple[str, str]], *, query: bool, drop: str = "") -> Outcome:
    """Note files that did not arrive: (name, key of the reason)."""
    reasons = {"large": Said("too_large", {"most": session.shared.limits.file_bytes // 1_000_000})}
    noted = tuple(LeftOut(name, reasons.get(why) or Said("not_taken"), query) for name, why in files)
    return _step(session, drop, left_out=session.left_out + noted)


def correct(session: Session, position: int, name: str) -> Outcome:
    """Make query number `position` an example of the class a visitor gives it; all answers are made again."""
    query = query_at(session, position)
    _check_class(session, name)
    if query.corrected == name:
        return Outcome(session)
    if query.corrected is not None:
        return move_example(session, query.picture.name, name)
    twin = next((p.name for p in session.examples.values() if p.digest == query.picture.digest), None)
    if twin is not None:
        raise TextError("nothing_learned", name=query.picture.name, twin=twin)
    if sum(session.classes.values()) >= session.shared.limits.examples:
        raise TextError("too_many_examples", most=session.shared.limits.examples)
    queries = list(session.queries)
    queries[position] = replace(query, corrected=name)
    return _step(session, queries=tuple(queries), **_learned(session, name, (query.picture,)))


def clear_answers(session: Session) -> Outcome:
    """Forget the pictures that were labeled; those that became examples stay examples. Nothing older can be undone."""
    return _step(replace(session, past=()), queries=(), left_out=())


def start_over(session: Session) -> Outcome:
    """Go back to how everything was on arrival. Nothing older can be undone."""
    empty = replace(session, past=())
    return _step(empty, classifier=session.shared.start, examples={}, queries=(), left_out=())


def undo(session: Session) -> Outcome:
    """Take back the last action."""
    if not session.past:
        raise TextError("nothing_to_undo")
    *older, before = session.past
    return Outcome(replace(before, past=tuple(older)))


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


def _receive(session: Session, files: Sequence[Path]) -> Received:
    shared, limits = session.shared, session.shared.limits
    kept = list(shared.kept)
    too_much = sum(picture.size for picture in kept) > limits.kept_bytes_of_all
    if too_much or len(kept) + len(files) > limits.pictures_of_all:
        raise TextError("too_many_of_all")
    received = receive(files, shared.backbone.image_size, limits, _taken(session), shared.folder)
    shared.kept.update(received.pictures)
    return received


def _left_out(received: Received, repeated: Mapping[str, str], *, query: bool) -> tuple[LeftOut, ...]:
    bad = [LeftOut(name, Said.plain(reason), query) for name, reason in received.unreadable]
    return (*bad, *(LeftOut(name, Said("same_picture", {"twin": twin}), query) for name, twin in repeated.items()))


def _step(session: Session, drop: str = "", **changes: Any) -> Outcome:
    """The session with changes, which can be taken back, and with every picture labeled by the classes it has now.

    A file that was left out is worth a remark; the list of all of them is on the page.
    """
    goes_on = drop and drop == session.drop
    past = session.past if goes_on else (*session.past, replace(session, past=()))[-STEPS_BACK:]
    changed = _answered(replace(session, **changes, drop=drop, past=past))
    news = len(changed.left_out) - len(session.left_out)
    return Outcome(changed, (Said("some_left_out", {"count": news}),) if news > 0 else ())


def _learned(session: Session, name: str, pictures: tuple[Picture, ...]) -> dict[str, Any]:
    """What changes in a session when its classifier learns pictures of a class."""
    if session.classifier is None:
        classifier, label = session.shared.new_classifier(), name
    else:
        classifier = _fork(session.classifier)
        label = _label(classifier, name)
    with session.shared.lock:
        classifier.partial_fit(_as_domain(pictures), [label] * len(pictures))
    return {
        "classifier": classifier,
        "examples": {**session.examples, **{picture.name: picture for picture in pictures}},
    }


def _relabeled(session: Session, changes: Mapping[str, str | None]) -> Outcome:
    """The session with other classes for some support pictures, `None` for none; corrections follow."""
    labels = {**session.labels, **changes}
    classifier = None
    if session.classifier is not None and any(label is not None for label in labels.values()):
        classifier = _fork(session.classifier)
        was = {str(label): label for label in classifier.classes_.tolist()}
        # A saved classifier may have numbers for classes; with a name among them all become text.
        numbers = all(label is None or label in was for label in labels.values())
        given = [labels[name] for name in classifier.support_names_]
        classifier.relabel([was[label] if numbers and label is not None else label for label in given])
    gone = {picture for picture, label in changes.items() if label is None}
    return _step(
        session,
        classifier=classifier,
        examples={name: picture for name, picture in session.examples.items() if name not in gone},
        queries=tuple(
            replace(query, corrected=changes[query.picture.name])
            if query.corrected is not None and query.picture.name in changes
            else query
            for query in session.queries
        ),
    )


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
    return unlabeled_pictures([picture.name for picture in pictures], [picture.square() for picture in pictures])


def _label(classifier: FewShotClassifier, name: str) -> Any:
    """The class as the classifier has it (a saved one may have numbers), or the name itself where it is new."""
    return next((label for label in classifier.classes_.tolist() if str(label) == name), name)


def _taken(session: Session) -> set[str]:
    support = () if session.classifier is None else session.classifier.support_names_
    return {*support, *(query.picture.name for query in session.queries)}


def _without_repeats(pictures: tuple[Picture, ...], known: Any) -> tuple[tuple[Picture, ...], dict[str, str]]:
    """Pictures that are not there yet, and of the others, as what they are: no picture counts twice.

    An example that came twice would recognize itself and make the estimate too good.
    """
    seen = {picture.digest: picture.name for picture in known}
    fresh, repeated = [], {}
    for picture in pictures:
        if picture.digest in seen:
            repeated[picture.name] = seen[picture.digest]
        else:
            seen[picture.digest] = picture.name
            fresh.append(picture)
    return tuple(fresh), repeated


def _checked_name(name: str, limits: Limits) -> str:
    tidied = " ".join(name.split())
    if not tidied:
        raise TextError("no_name")
    if len(tidied) > limits.name_letters or not tidied.isprintable():
        raise TextError("bad_name", most=limits.name_letters)
    return tidied


def _check_class(session: Session, name: str) -> None:
    if name not in session.classes:
        raise TextError("no_such_class", name=name, classes=", ".join(session.classes) or "–")


def _check_example(session: Session, picture: str) -> None:
    if picture not in session.labels:
        raise TextError("no_such_example", name=picture)
