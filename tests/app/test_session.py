from __future__ import annotations

import csv
import gc
import io
import threading
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from oracles.color_folders import Paint

from cplsr.app.actions import Label, Refused, Teach
from cplsr.app.downloads import (
    CSV_COLUMNS,
    folder_names,
    predictions_csv,
    write_browser_page,
    write_csv,
    write_labeled,
    write_left_out,
    write_model,
)
from cplsr.app.page import received
from cplsr.app.session import Session, Shared, explain, new_session, suggestions, support_report
from cplsr.app.steps import (
    STEPS_BACK,
    add_class,
    classify,
    clear_answers,
    correct,
    leave_out,
    move_example,
    remove_class,
    remove_example,
    rename_class,
    start_over,
    undo,
    why,
)
from cplsr.app.texts import Said
from cplsr.app.uploads import Limits
from cplsr.app.view import View, arranged
from cplsr.backbones.backbone import Backbone
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.errors import InputError

VIEW = View()


@pytest.fixture
def taught(session: Session, paint: Paint) -> Session:
    """Three classes of three pictures."""
    for color in ("red", "green", "blue"):
        session = add_class(session, color, paint(color, 3)).session
    return session


@pytest.fixture
def answered(taught: Session, paint: Paint) -> Session:
    return classify(taught, [*paint("red", 2), *paint("blue", 1)]).session


def test_classes_grow_one_by_one_and_the_first_session_stays_empty(session: Session, paint: Paint) -> None:
    one = add_class(session, "  deep   red ", paint("red", 3)).session
    two = add_class(one, "green", paint("green", 2)).session
    more = add_class(two, "green", paint("green", 2)).session
    assert session.classes == {}
    assert one.classes == {"deep red": 3}
    assert two.classes == {"deep red": 3, "green": 2}
    assert more.classes == {"deep red": 3, "green": 4}
    assert (one.is_ready, two.is_ready) == (False, True)
    assert len(more.examples_of("green")) == 4
    assert all(example is not None for _, example in more.examples_of("green"))


def test_answers_are_those_of_a_classifier_fitted_to_the_same_files(
    session: Session, paint: Paint, backbone: Backbone
) -> None:
    reds, greens, queries = paint("red", 3), paint("green", 3), [*paint("green", 2), *paint("red", 2)]
    taught = add_class(add_class(session, "red", reds).session, "green", greens).session
    answered = classify(taught, queries).session
    plain = FewShotClassifier(backbone, workers=0).fit(
        [*map(str, reds), *map(str, greens)], ["red"] * 3 + ["green"] * 3
    )
    expected = [answer for batch in plain.predictions([str(file) for file in queries]) for answer in batch]
    assert [query.label for query in answered.queries] == [answer.label for answer in expected]
    for query, answer in zip(answered.queries, expected, strict=True):
        assert query.answer is not None
        assert query.answer.confidence == pytest.approx(answer.confidence, abs=1e-5)
    assert [query.picture.name for query in answered.queries] == [file.name for file in queries]


def test_two_visitors_share_weights_and_nothing_else(backbone: Backbone, paint: Paint) -> None:
    shared = Shared(backbone)
    first, second = new_session(shared), new_session(shared)
    first = add_class(first, "red", paint("red", 2)).session
    second = add_class(second, "blue", paint("blue", 2)).session
    assert (list(first.classes), list(second.classes)) == (["red"], ["blue"])
    assert first.classifier is not None
    mine = next(first.classifier.backbone_.parameters())
    assert mine.data_ptr() == next(backbone.parameters()).data_ptr()


def test_visitors_at_the_same_time_do_not_disturb_each_other(backbone: Backbone, paint: Paint) -> None:
    shared = Shared(backbone)
    drops = {color: (paint(color, 3), paint(color, 2)) for color in ("red", "green", "blue")}
    other = paint("red", 2, "others")
    ends: dict[str, Session] = {}

    def visit(color: str) -> None:
        session = add_class(new_session(shared), "other", other).session
        session = add_class(session, color, drops[color][0]).session
        ends[color] = classify(session, drops[color][1]).session

    threads = [threading.Thread(target=visit, args=(color,)) for color in drops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for color, (examples, _) in drops.items():
        assert set(ends[color].classes) == {"other", color}
        assert {name for name, _ in ends[color].examples_of(color)} == {file.name for file in examples}
        assert len(ends[color].queries) == 2


def test_the_lock_is_held_while_the_backbone_computes(taught: Session, paint: Paint) -> None:
    assert taught.classifier is not None
    held: list[bool] = []
    taught.classifier.backbone_.register_forward_pre_hook(lambda *_: held.append(taught.shared.lock.locked()))
    asked = classify(taught, paint("red", 1)).session
    explain(asked, 0)
    corrected = correct(asked, 0, "blue").session
    assert len(held) >= 3
    assert all(held)
    assert not corrected.shared.lock.locked()


def test_a_correction_becomes_an_example_and_all_answers_follow(answered: Session) -> None:
    name = answered.queries[0].picture.name
    after = correct(answered, 0, "green").session
    assert after.classes == {"blue": 3, "green": 4, "red": 3}
    assert name in [picture for picture, _ in after.examples_of("green")]
    assert after.queries[0].label == "green"
    assert after.classifier is not None
    vectors = np.stack([query.vector for query in after.queries])
    expected = after.classifier.predict_proba(vectors).max(axis=1)
    given = [query.answer.confidence for query in after.queries if query.answer is not None]
    assert given == pytest.approx(expected.tolist())
    before = [query.answer.confidence for query in answered.queries if query.answer is not None]
    assert given != before
    again = correct(after, 0, "red").session
    assert (again.classes, again.queries[0].label) == ({"blue": 3, "green": 3, "red": 4}, "red")


def test_undo_takes_back_one_step_after_the_other(answered: Session) -> None:
    after = correct(answered, 0, "green").session
    back = undo(after).session
    assert back.classes == answered.classes
    assert back.queries[0].corrected is None
    for classes in ({"blue": 3, "green": 3, "red": 3}, {"green": 3, "red": 3}, {"red": 3}, {}):
        back = undo(back).session
        assert (back.classes, back.queries) == (classes, ())
    with pytest.raises(InputError, match="nothing to take back"):
        undo(back)
    for number in range(STEPS_BACK + 5):
        after = correct(after, 0, ("red", "blue")[number % 2]).session
    assert len(after.past) == STEPS_BACK


def test_parts_of_one_drop_are_undone_together(taught: Session, paint: Paint) -> None:
    one = classify(taught, paint("red", 2), "drop 1").session
    both = classify(one, paint("red", 2), "drop 1").session
    more = classify(both, paint("red", 1), "drop 2").session
    assert len(more.queries) == 5
    assert len(undo(more).session.queries) == 4
    assert undo(undo(more).session).session.queries == ()


def test_examples_are_moved_and_removed_and_classes_renamed(answered: Session, backbone: Backbone) -> None:
    name, _ = answered.examples_of("red")[0]
    moved = move_example(answered, name, "green").session
    assert moved.classes == {"blue": 3, "green": 4, "red": 2}
    removed = remove_example(moved, name).session
    assert (removed.classes, name in removed.examples) == ({"blue": 3, "green": 3, "red": 2}, False)
    renamed = rename_class(correct(removed, 0, "red").session, "red", "  dark   red ").session
    assert renamed.classes == {"blue": 3, "dark red": 3, "green": 3}
    assert renamed.queries[0].corrected == "dark red"
    assert {picture for picture, _ in renamed.examples_of("dark red")} <= set(renamed.examples)
    assert undo(undo(undo(undo(renamed).session).session).session).session.classes == answered.classes
    files = [str(renamed.examples[picture].file) for picture in renamed.labels]
    plain = FewShotClassifier(backbone, workers=0).fit(files, list(renamed.labels.values()))
    vectors = np.stack([query.vector for query in renamed.queries])
    assert renamed.classifier is not None
    assert np.allclose(renamed.classifier.predict_proba(vectors), plain.predict_proba(vectors), atol=1e-5)
    last = renamed
    for picture, _ in renamed.examples_of("blue"):
        last = remove_example(last, picture).session
    assert list(last.classes) == ["dark red", "green"]


def test_classes_that_are_numbers_become_text_with_a_name_among_them(taught: Session, backbone: Backbone) -> None:
    files = [str(picture.file) for picture in taught.examples.values()]
    numbers = FewShotClassifier(backbone, workers=0).fit(files, [7] * 3 + [8] * 3 + [9] * 3)
    session = new_session(Shared(backbone, numbers))
    moved = move_example(session, next(iter(session.labels)), "9").session
    assert moved.classes == {"7": 2, "8": 3, "9": 4}
    assert moved.classifier is not None
    assert moved.classifier.classes_.tolist() == [7, 8, 9]
    assert rename_class(moved, "8", "eight").session.classes == {"7": 2, "9": 4, "eight": 3}


def test_a_removed_class_takes_its_examples_and_corrections_along(answered: Session) -> None:
    corrected = correct(answered, 0, "green").session
    after = remove_class(corrected, "green").session
    assert after.classes == {"blue": 3, "red": 3}
    assert after.queries[0].corrected is None
    assert after.queries[0].label in after.classes
    assert set(after.examples) == {name for color in after.classes for name, _ in after.examples_of(color)}
    report = support_report(after)
    assert report is not None
    assert report.images == 6


def test_without_two_classes_there_are_no_answers(answered: Session, paint: Paint) -> None:
    one = remove_class(remove_class(answered, "red").session, "green").session
    assert one.classes == {"blue": 3}
    assert [query.label for query in one.queries] == ["", "", ""]
    assert support_report(one) is None
    with pytest.raises(InputError, match="at least two classes"):
        classify(one, paint("red", 1))
    none = remove_class(one, "blue").session
    assert (none.classes, none.classifier, none.examples) == ({}, None, {})
    anew = add_class(add_class(none, "red", paint("red", 2)).session, "blue", paint("blue", 2)).session
    assert all(query.label in ("red", "blue") for query in anew.queries)


def test_garbage_is_named_and_the_rest_is_used(taught: Session, paint: Paint, tmp_path: Path) -> None:
    bad = tmp_path / "letter.jpg"
    bad.write_text("dear reader")
    outcome = classify(taught, [bad, *paint("red", 1)])
    assert [query.label != "" for query in outcome.session.queries] == [True]
    assert outcome.remarks == (Said("some_left_out", {"count": 1}),)
    assert [(file.name, file.query) for file in outcome.session.left_out] == [("letter.jpg", True)]
    assert "known format" in outcome.session.left_out[0].reason.in_language("en")
    only = classify(taught, [bad])
    assert only.session.queries == ()
    none = add_class(taught, "new", [bad]).session
    assert "new" not in none.classes
    mixed = add_class(none, "new", [bad, *paint("red", 1)]).session
    assert mixed.classes["new"] == 1
    assert [(file.name, file.query) for file in mixed.left_out] == [("letter.jpg", False)] * 2
    reasons = [(name, why(reason, Limits())) for name, reason in (("film.mov", "too_large"), ("odd.png", "not_taken"))]
    large = leave_out(mixed, reasons, query=True).session
    assert [file.reason.in_language("en") for file in large.left_out[2:]] == [
        "larger than 20 MB",
        "the server did not take it",
    ]


def test_what_fits_is_taken_and_the_rest_is_named(taught: Session, paint: Paint) -> None:
    narrow = replace(taught, shared=replace(taught.shared, limits=Limits(examples=11, answers=3)))
    files = paint("red", 4)
    more = add_class(narrow, "red", [files[0], *files], "drop 1").session
    assert more.classes["red"] == 5
    assert [file.name for file in more.left_out] == [f"{files[0].stem} (2).png", *(file.name for file in files[2:])]
    assert "takes 11 examples" in more.left_out[-1].reason.in_language("en")
    asked = classify(narrow, paint("blue", 2), "drop 2").session
    rest = classify(asked, (last := paint("blue", 3)), "drop 2")
    assert len(rest.session.queries) == 3
    assert [(file.name, file.query) for file in rest.session.left_out] == [(file.name, True) for file in last[1:]]
    assert rest.remarks == (Said("some_left_out", {"count": 2}),)
    assert undo(rest.session).session.queries == ()


def test_remarks_count_what_was_left_out_of_all_parts_of_a_drop(taught: Session, tmp_path: Path) -> None:
    session = taught
    for number, drop in enumerate(("one", "one", "one", "two")):
        (tmp_path / f"{number}.png").write_text("dear reader")
        outcome = classify(session, [tmp_path / f"{number}.png"], drop)
        session = outcome.session
        assert outcome.remarks == (Said("some_left_out", {"count": 1 if drop == "two" else number + 1}),)


def test_a_part_that_cannot_be_used_is_named_and_says_whether_more_can_come(taught: Session, paint: Paint) -> None:
    files = [str(file) for file in paint("red", 2)]
    narrow = replace(taught, shared=replace(taught.shared, limits=Limits(classes=3, examples=9, answers=0)))
    for action, full, words in (
        (Teach(name="fourth", files=files, drop="1"), "too_many_classes", "There are 3 classes already"),
        (Teach(name="red", files=files, drop="1"), "too_many_examples", "A model takes 9 examples"),
        (Teach(name="x" * 61, files=files, drop="1"), "", "no good name"),
        (Label(files=files, drop="1"), "too_many_answers", "The page holds 0 answers"),
    ):
        outcome = received(narrow, action)
        assert outcome.full == full
        assert [file.name for file in outcome.session.left_out] == [Path(file).name for file in files]
        assert all(words in file.reason.in_language("en") for file in outcome.session.left_out)
        assert [remark.key for remark in outcome.remarks][-1] == "some_left_out"
        rest = tuple(Refused(f"{number}.png", "too_many_answers") for number in range(300))
        named = received(outcome.session, Label(refused=list(rest), drop="1"))
        assert len(named.session.left_out) == 302
        assert named.remarks == (Said("some_left_out", {"count": 302}),)
        assert undo(named.session).session.left_out == ()


def test_all_files_that_were_left_out_come_home(taught: Session, tmp_path: Path) -> None:
    files = [(f"{number}.png", why("too_many_examples", Limits())) for number in range(300)]
    both = leave_out(leave_out(taught, files, query=False).session, [("=a", why("not_picture", Limits()))], query=True)
    file, _ = write_left_out(both.session, VIEW, tmp_path / "out")
    rows = list(csv.reader(io.StringIO(file.read_text(encoding="utf-8"))))
    assert rows[0] == ["path", "origin", "error"]
    assert rows[-1] == ["'=a", "answer", "not an image of a known format"]
    assert [row[:2] for row in rows[1:-1]] == [[name, "example"] for name, _ in files]


def test_the_same_picture_counts_once(taught: Session, paint: Paint, tmp_path: Path) -> None:
    name, _ = taught.examples_of("red")[0]
    file = tmp_path / "pictures" / name
    outcome = add_class(taught, "green", [file, *paint("green", 1)])
    assert outcome.session.classes["green"] == 4
    assert outcome.session.left_out[0].reason.in_language("en") == f"the same picture as {name}"
    asked = classify(taught, [file]).session
    copy = tmp_path / "copy.png"
    copy.write_bytes(file.read_bytes())
    twice = classify(asked, [copy, *paint("red", 1)]).session
    assert [left.name for left in twice.left_out] == ["copy.png"]
    assert len(twice.queries) == 2
    with pytest.raises(InputError, match="same picture"):
        correct(asked, 0, "green")


@pytest.mark.parametrize(
    ("limits", "action", "words"),
    [
        (Limits(classes=3), lambda s, files: add_class(s, "fourth", files), "3 classes"),
        (Limits(examples=9), lambda s, files: add_class(s, "red", files), "9 examples"),
        (Limits(answers=0), classify, "0 answers"),
        (Limits(pictures_of_all=10), lambda s, files: add_class(s, "red", files), "of all visitors"),
        (Limits(pictures_of_all=10), classify, "of all visitors"),
        (Limits(), lambda s, files: add_class(s, "   ", files), "no name"),
        (Limits(), lambda s, files: add_class(s, "x" * 61, files), "60 letters"),
        (Limits(), lambda s, files: add_class(s, "a\0b", files), "no good name"),
        (Limits(), lambda s, files: add_class(s, "red", []), "no pictures"),
        (Limits(kept_bytes_of_all=1), classify, "of all visitors"),
        (Limits(), lambda s, files: remove_class(s, "pink"), "no class pink"),
        (Limits(), lambda s, files: rename_class(s, "red", "blue"), "class blue already"),
        (Limits(), lambda s, files: rename_class(s, "red", " "), "no name"),
        (Limits(), lambda s, files: remove_example(s, "pink.png"), "no example pink.png"),
        (Limits(), lambda s, files: move_example(s, "pink.png", "red"), "no example pink.png"),
        (Limits(), lambda s, files: correct(s, 7, "red"), "not in the list"),
        (Limits(), lambda s, files: explain(s, -1), "not in the list"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(
    taught: Session, paint: Paint, limits: Limits, action: Callable[..., object], words: str
) -> None:
    strict = replace(taught, shared=replace(taught.shared, limits=limits))
    with pytest.raises(InputError, match=words):
        action(strict, paint("red", 2))


def test_an_explanation_names_examples_whose_thumbnails_are_there(answered: Session) -> None:
    told = explain(answered, 0)
    assert told.label == answered.queries[0].label
    assert len(told.neighbors) == 5
    assert all(neighbor.name in answered.examples for neighbor in told.neighbors)


def test_clearing_and_starting_over_can_be_undone(answered: Session) -> None:
    cleared = clear_answers(answered).session
    assert (cleared.queries, cleared.classes) == ((), answered.classes)
    assert len(undo(cleared).session.queries) == 3
    fresh = start_over(answered).session
    assert fresh.classes == {}
    assert undo(fresh).session.classes == answered.classes


def test_the_csv_has_a_row_for_every_file(answered: Session, tmp_path: Path) -> None:
    bad = tmp_path / "letter.jpg"
    bad.write_text("dear reader")
    session = correct(classify(answered, [bad]).session, 1, "green").session
    rows = list(csv.DictReader(io.StringIO(predictions_csv(session, VIEW))))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert [row["path"] for row in rows] == [*(query.picture.name for query in session.queries), "letter.jpg"]
    assert rows[0]["label"] == session.queries[0].label
    first = session.queries[0].answer
    assert first is not None
    assert rows[0]["confidence"] == f"{first.confidence:.4f}"
    assert (rows[1]["label"], rows[1]["confidence"], rows[1]["corrected"]) == ("green", "", "yes")
    assert rows[-1]["error"]
    assert rows[-1]["label"] == ""
    file, _ = write_csv(session, VIEW, tmp_path / "new")
    assert file.read_text(encoding="utf-8") == predictions_csv(session, VIEW)
    strict = list(csv.DictReader(io.StringIO(predictions_csv(session, View(threshold=1.0)))))
    assert (strict[0]["label"], strict[0]["runner_up"]) == ("unknown", rows[0]["label"])
    assert strict[0]["known"] != rows[0]["known"]
    assert strict[1] == rows[1]


def test_the_csv_has_no_formulas(answered: Session, tmp_path: Path) -> None:
    (tmp_path / "=cmd.jpg").write_text("dear reader")
    session = classify(answered, [tmp_path / "=cmd.jpg"]).session
    assert "\n'=cmd.jpg," in predictions_csv(session, VIEW)


def test_the_zip_is_a_classifier_that_answers_alike(answered: Session, tmp_path: Path, backbone: Backbone) -> None:
    file, _ = write_model(answered, VIEW, tmp_path / "out")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(tmp_path / "home")
    loaded = FewShotClassifier.load(tmp_path / "home" / "model", backbone=backbone)
    assert answered.classifier is not None
    assert loaded.support_names_ == answered.classifier.support_names_
    vectors = np.stack([query.vector for query in answered.queries])
    assert np.allclose(loaded.predict_proba(vectors), answered.classifier.predict_proba(vectors))


def test_nothing_to_download_is_a_sentence(session: Session, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no answers"):
        write_csv(session, VIEW, tmp_path)
    with pytest.raises(InputError, match="no model"):
        write_model(session, VIEW, tmp_path)
    with pytest.raises(InputError, match="no labeled"):
        write_labeled(session, VIEW, tmp_path)
    with pytest.raises(InputError, match="at least two classes"):
        write_browser_page(session, VIEW, tmp_path)


def test_labeled_pictures_come_home_in_folders_as_they_were(answered: Session, tmp_path: Path) -> None:
    session = correct(rename_class(answered, "blue", "a/b: <c>").session, 0, "green").session
    file, _ = write_labeled(session, VIEW, tmp_path / "out")
    pictures = {**session.examples, **{query.picture.name: query.picture for query in session.queries}}
    labels = {**{query.picture.name: query.label for query in session.queries}, **session.labels}
    with zipfile.ZipFile(file) as archive:
        rows = list(csv.DictReader(io.TextIOWrapper(archive.open("labels.csv"), encoding="utf-8")))
        assert len(rows) == len(archive.namelist()) - 1 == 9 + 3
        for row in rows:
            name = row["path"].split("/")[1]
            assert archive.read(row["path"]) == pictures[name].file.read_bytes()
            assert row["label"] == labels[name]
            assert row["origin"] == ("example" if name in session.examples else "answer")
        assert {row["path"].split("/")[0] for row in rows if row["label"] == "a/b: <c>"} == {"a_b_ _c_"}
    strict, _ = write_labeled(session, View(threshold=1.0), tmp_path / "strict")
    with zipfile.ZipFile(strict) as archive:
        assert len(archive.namelist()) == 10 + 1  # unknown pictures stay out


def test_what_to_label_next_leaves_out_what_was_given_and_keeps_its_order(taught: Session, paint: Paint) -> None:
    asked = classify(taught, [*paint("red", 2), *paint("green", 2), *paint("blue", 2)]).session
    names = [query.picture.name for query in asked.queries]
    all_of_them = suggestions(asked)
    assert sorted(name for name, _ in all_of_them) == sorted(names)
    assert all(reason for _, reason in all_of_them)
    first = all_of_them[0][0]
    assert suggestions(asked, count=1) == all_of_them[:1]
    learned = correct(asked, names.index(first), "blue").session
    assert first not in dict(suggestions(learned))
    view = View(only="next", sort="next", next=suggestions(learned))
    assert [names[position] for position in arranged(learned, view)] == list(dict(view.next))
    for position in range(len(names)):
        learned = correct(learned, position, "blue").session
    with pytest.raises(InputError, match="nothing left to learn"):
        suggestions(learned)
    with pytest.raises(InputError, match="at least two classes"):
        suggestions(new_session(taught.shared))


def test_folder_names_are_all_different() -> None:
    names = folder_names(["a/b", "a:b", "A_B", "..", " ", "x"])
    assert list(names.values()) == ["a_b", "a_b (2)", "A_B (3)", "_", "_ (2)", "x"]


def test_files_are_kept_as_long_as_a_session_has_the_picture(backbone: Backbone, paint: Paint, tmp_path: Path) -> None:
    session = add_class(new_session(Shared(backbone, folder=tmp_path / "kept")), "red", paint("red", 2)).session
    session = add_class(session, "blue", paint("blue", 1)).session
    assert len(list((tmp_path / "kept").iterdir())) == 3
    assert all(picture.square().width == picture.side for picture in session.examples.values())
    session = start_over(start_over(session).session).session
    gc.collect()
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_saved_model_is_where_every_visitor_begins(
    taught: Session, tmp_path: Path, backbone: Backbone, paint: Paint
) -> None:
    assert taught.classifier is not None
    start = FewShotClassifier.load(taught.classifier.save(tmp_path / "model"), backbone=backbone)
    shared = Shared(start.backbone_, start)
    first = add_class(new_session(shared), "other", paint("red", 2)).session
    assert len(first.classes) == 4
    assert list(new_session(shared).classes) == ["blue", "green", "red"]
    asked = classify(new_session(shared), paint("blue", 1)).session
    assert asked.queries[0].label in asked.classes
    assert [example for _, example in asked.examples_of("red")] == [None] * 3
    assert explain(asked, 0).neighbors[0].name
    assert new_session(shared).shared.new_classifier().temperature == start.temperature


def test_a_backbone_without_adapter_stays_without(session: Session, paint: Paint) -> None:
    taught = add_class(session, "red", paint("red", 1)).session
    assert taught.classifier is not None
    assert taught.classifier.adapter_kind_ is None
    assert taught.classifier.backbone_.adapter is None


def test_pictures_count_for_all_only_as_long_as_a_session_has_them(backbone: Backbone, paint: Paint) -> None:
    shared = Shared(backbone)
    session = add_class(new_session(shared), "red", paint("red", 3)).session
    session = classify(add_class(session, "blue", paint("blue", 2)).session, paint("red", 2)).session
    gc.collect()
    assert len(shared.kept) == 7
    session = clear_answers(clear_answers(session).session).session  # the last step could still be undone
    gc.collect()
    assert len(shared.kept) == 5
    del session
    gc.collect()
    assert len(shared.kept) == 0
