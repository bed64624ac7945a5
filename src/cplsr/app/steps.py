"""Everything a visitor can do with a session; no web library here.

A session is never changed: a step gives a new one, so that an error leaves everything as it was, two visitors cannot
touch each other's classes, and steps can be taken back.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from cplsr.app.actions import Name, Position, Reason
from cplsr.app.session import LeftOut, Query, Session, query_at
from cplsr.app.texts import Said, TextError
from cplsr.app.uploads import Limits, Picture, receive
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.classifier.pictures import unlabeled_pictures
from cplsr.data.domain import Domain

STEPS_BACK = 20


@final
@dataclass(frozen=True, eq=False)
class Outcome:
    """The session after an action, and sentences that the visitor should read. full: why no more files are taken."""

    session: Session
    remarks: tuple[Said, ...] = ()
    full: str = ""


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
    fresh, left_out = _receive(session, files, query=False)
    changes = _learned(session, name, fresh) if fresh else {}
    return _step(session, drop, left_out=session.left_out + left_out, **changes)


def remove_class(session: Session, name: Name) -> Outcome:
    """Forget a class and its examples; pictures that were corrected to it get the classifier's answer again."""
    _check_class(session, name)
    return _relabeled(session, {picture: None for picture, _ in session.examples_of(name)})


def rename_class(session: Session, name: Name, new: Name) -> Outcome:
    """Call a class something else."""
    _check_class(session, name)
    new = _checked_name(new, session.shared.limits)
    if new in session.classes:
        raise TextError("name_taken", name=new)
    return _relabeled(session, {picture: new for picture, _ in session.examples_of(name)})


def remove_example(session: Session, picture: Name) -> Outcome:
    """Forget one example; with the last one, its class."""
    _check_example(session, picture)
    return _relabeled(session, {picture: None})


def move_example(session: Session, picture: Name, to: Name) -> Outcome:
    """Say that an example is of another class."""
    _check_example(session, picture)
    _check_class(session, to)
    return _relabeled(session, {picture: to})


def classify(session: Session, files: Sequence[Path], drop: str = "") -> Outcome:
    """Label image files; the answers join those that are there. drop: as in `add_class`."""
    classifier = session.classifier
    if classifier is None or not session.is_ready:
        raise TextError("nothing_to_choose")
    fresh, left_out = _receive(session, files, query=True)
    queries: tuple[Query, ...] = ()
    if fresh:
        with session.shared.lock:
            vectors = classifier.embed(_as_domain(fresh))
        queries = tuple(Query(picture, vector) for picture, vector in zip(fresh, vectors, strict=True))
    return _step(session, drop, queries=session.queries + queries, left_out=session.left_out + left_out)


def leave_out(session: Session, files: Iterable[tuple[str, Said]], *, query: bool, drop: str = "") -> Outcome:
    """Note files that are not used, and why."""
    noted = tuple(LeftOut(name, reason, query) for name, reason in files)
    return _step(session, drop, left_out=session.left_out + noted)


def why(reason: Reason, limits: Limits) -> Said:
    """Why a file did not arrive, for people."""
    most = {
        "too_large": limits.file_bytes // 1_000_000,
        "too_many_answers": limits.answers,
        "too_many_examples": limits.examples,
        "too_many_classes": limits.classes,
    }
    return Said(reason, {"most": most[reason]} if reason in most else {})


def correct(session: Session, answer: Position, right: Name) -> Outcome:
    """Make query number `answer` an example of the class a visitor gives it; all answers are made again."""
    query = query_at(session, answer)
    _check_class(session, right)
    if query.corrected == right:
        return Outcome(session)
    if query.corrected is not None:
        return move_example(session, query.picture.name, right)
    twin = next((p.name for p in session.examples.values() if p.digest == query.picture.digest), None)
    if twin is not None:
        raise TextError("nothing_learned", name=query.picture.name, twin=twin)
    if sum(session.classes.values()) >= session.shared.limits.examples:
        raise TextError("too_many_examples", most=session.shared.limits.examples)
    queries = list(session.queries)
    queries[answer] = replace(query, corrected=right)
    return _step(session, queries=tuple(queries), **_learned(session, right, (query.picture,)))


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


def _receive(
    session: Session, files: Sequence[Path], *, query: bool
) -> tuple[tuple[Picture, ...], tuple[LeftOut, ...]]:
    """Read as many new pictures to label, or as examples, as there is room for; the others are left out, and why.

    A picture that is there already does not count twice: as an example it would recognize itself and make the estimate
    too good.
    """
    shared, limits = session.shared, session.shared.limits
    asked = [query.picture for query in session.queries]
    room = limits.answers - len(asked) if query else limits.examples - sum(session.classes.values())
    full = why("too_many_answers" if query else "too_many_examples", limits)
    if room <= 0:
        raise TextError(full.key, **full.values)
    kept = list(shared.kept)
    too_much = sum(picture.size for picture in kept) > limits.kept_bytes_of_all
    if too_much or len(kept) + len(files) > limits.pictures_of_all:
        raise TextError("too_many_of_all")
    taken = {*session.labels, *(picture.name for picture in asked)}
    pictures, unreadable = receive(files, shared.backbone.image_size, limits, taken, shared.folder)
    left_out = [LeftOut(name, Said.plain(reason), query) for name, reason in unreadable]
    seen = {picture.digest: picture.name for picture in (asked if query else session.examples.values())}
    fresh: list[Picture] = []
    for picture in pictures:
        if picture.digest in seen:
            left_out.append(LeftOut(picture.name, Said("same_picture", {"twin": seen[picture.digest]}), query))
        elif len(fresh) == room:
            left_out.append(LeftOut(picture.name, full, query))
        else:
            seen[picture.digest] = picture.name
            fresh.append(picture)
    shared.kept.update(fresh)
    return tuple(fresh), tuple(left_out)


def _step(session: Session, drop: str = "", **changes: Any) -> Outcome:
    """The session with changes, which can be taken back, and with every picture labeled by the classes it has now.

    Files that were left out of what was dropped are worth a remark; the list of all of them is on the page.
    """
    goes_on = drop and drop == session.drop
    past = session.past if goes_on else (*session.past, replace(session, past=()))[-STEPS_BACK:]
    changed = _answered(replace(session, **changes, drop=drop, past=past))
    news = len(changed.left_out) - len(past[-1].left_out)
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
