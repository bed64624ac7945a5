"""All texts of the page, in all languages."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest
from oracles.color_folders import Paint

from cplsr.app import texts, uploads
from cplsr.app.actions import LANGUAGES, Reason
from cplsr.app.session import Session, support_report
from cplsr.app.steps import add_class
from cplsr.app.texts import FROM_BELOW, TEXTS, Said, from_below, say
from cplsr.classifier import reading_choice, suggest
from cplsr.classifier.expectation import Expectation
from cplsr.classifier.reading_choice import Choice
from cplsr.classifier.support_report import Confusion, DoubtfulImage, FrozenComparison, Share, SupportReport
from cplsr.data import image_file, preprocess
from cplsr.episodes.heads.auto import READINGS, Reading
from cplsr.episodes.heads.ridge import Ridge
from cplsr.export import browser_page, exported, to_onnx

APP = Path(texts.__file__).parent


def gaps(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


def test_no_text_is_missing_in_any_language() -> None:
    for each in (*TEXTS.values(), *FROM_BELOW):
        assert set(each) == set(LANGUAGES), each
        assert all(text.strip() for text in each.values()), each
        assert all(gaps(text) == gaps(each["en"]) for text in each.values()), each


def test_every_text_that_is_used_is_in_the_table_and_none_is_idle() -> None:
    source = "\n".join(file.read_text(encoding="utf-8") for file in APP.glob("*.py"))
    named = set(re.findall(r'(?:say|Said|TextError)\((?:\w+(?:\.\w+)?, |"en", )?"(\w+)"', source))
    assert named <= set(TEXTS)
    assert set(get_args(Reason)) <= set(TEXTS)
    script = (APP / "page.js").read_text(encoding="utf-8")
    made = {key for key in TEXTS if key.startswith(("sort_", "show_", "download_", "about_"))}
    idle = (
        set(TEXTS)
        - named
        - made
        - set(re.findall(r"texts\.(\w+)", script))
        - set(re.findall(r"[\"'](\w+)[\"']", source))
    )
    assert idle == set()


def test_no_text_stands_in_the_code_that_makes_html() -> None:
    """What is left of the HTML templates without gaps and tags is punctuation."""
    for name in ("markup.py", "answers.py"):
        source = (APP / name).read_text(encoding="utf-8")
        for literal in re.findall(r">([^<>{}'\"]*)</", source):
            assert not re.search(r"[A-Za-zäöü]{2}", literal), (name, literal)


def test_numbers_are_written_as_in_the_language() -> None:
    assert say("en", "pictures", count=1234) == "1,234 pictures"
    assert say("de", "pictures", count=1234) == "1.234 Bilder"
    assert Said("no_name").in_language("de").startswith("Die Klasse hat noch keinen Namen")


ENGLISH = re.compile(r"\b(the|taken|looks|labeled|of|choice|more|and|pictures|images|from|with|not)\b")


def test_sentences_from_below_are_known_by_their_wording(session: Session, paint: Paint) -> None:
    for color in ("red", "green"):
        session = add_class(session, color, paint(color, 4)).session
    mixed = add_class(session, "red", paint("green", 2)).session
    report = support_report(mixed)
    assert report is not None
    english = [from_below("en", sentence) for sentence in report.sentences()]
    german = [from_below("de", sentence) for sentence in report.sentences()]
    assert english == report.sentences()
    assert not set(german) & set(english)
    assert not ENGLISH.search(" ".join(german))
    assert from_below("de", "something new") == "something new"


def test_lists_are_told_one_by_one_and_names_stay_what_they_are() -> None:
    one, two = "a, b.png (labeled x, looks like y)", "c.png (labeled frozen, looks like adapter)"
    assert from_below("de", f"Look at the labels of: {one}, {two}.") == (
        "Sieh dir die Klassen an von: a, b.png (als x gegeben, sieht aus wie y), "
        "c.png (als frozen gegeben, sieht aus wie adapter)."
    )
    told = from_below("de", f"Look at the labels of: {one}, {two} and 3 more.")
    assert told.endswith("sieht aus wie adapter) und 3 weiteren.")
    assert from_below("de", "Confusions to expect: x taken for y, z (2), frozen taken for x (1).") == (
        "Zu erwartende Verwechslungen: x gehalten für y, z (2), frozen gehalten für x (1)."
    )


@pytest.mark.parametrize("chance", [0.001, 0.5])
@pytest.mark.parametrize("expected", [None, Expectation(0.8, 0.1, 0.1)])
@pytest.mark.parametrize("better", [0, 9])
def test_every_sentence_of_a_report_is_known(chance: float, expected: Expectation | None, better: int) -> None:
    share = Share(3, 4)
    report = SupportReport(
        images=4,
        classes=(),
        expected=expected,
        recognized=share,
        confusions=tuple(Confusion(f"x{n}", "y", n) for n in range(7)),
        doubtful=tuple(DoubtfulImage(f"{n}.png", n, "x", "y", 9.0) for n in range(7)),
        needs_more=("x", "y"),
        temperature=1.0,
        choice="",
        comparison=FrozenComparison(share, share, 1, better, chance),
        tuned=True,
    )
    for sentence in report.sentences():
        assert not ENGLISH.search(from_below("de", sentence)), sentence
    earlier = (Reading(decay, favor, tilt=0.0) for decay, favor in ((0.0, 0.0), (0.5, 0.0), (0.9, 4.0), (1.0, 4.0)))
    for reading in (*READINGS, *earlier):
        for reason in re.findall(r'"((?:the usual|its squared)[^"]*)"', inspect.getsource(reading_choice)):
            choice = Choice(Ridge(penalty=0.1), reading, reason)
            assert not ENGLISH.search(from_below("de", choice.sentence())), choice


def sentences_in(thing: object) -> list[str]:
    """What a function or module raises, returns or calls a reason, with a figure in every gap."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))  # type: ignore[arg-type]
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            values = node.exc.args[:1]
        elif isinstance(node, (ast.Return, ast.Assign)) and node.value is not None:
            values = [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else [node.value]
        else:
            continue
        for value in values:
            parts = value.values if isinstance(value, ast.JoinedStr) else [value]
            if all(isinstance(part, (ast.Constant, ast.FormattedValue)) for part in parts):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "7" for part in parts)
                found += [text] if " " in text.strip() and re.search("[a-z]{2}", text) else []
    return found


REACH_THE_PAGE = (
    image_file,
    preprocess,
    uploads,
    suggest.Suggestion,
    browser_page._fetch,
    browser_page._unpack,
    browser_page._content,
    to_onnx.head_of,
    to_onnx.export_onnx,
    to_onnx._require_onnx,
    to_onnx._compare,
    exported.checked_difference,
)
NO_SENTENCES = {"not a regular file"}  # the system's own words, as other reasons of the system


def test_every_sentence_that_can_reach_the_page_is_known() -> None:
    sentences = [sentence for thing in REACH_THE_PAGE for sentence in sentences_in(thing)]
    assert len(sentences) >= 20
    assert [s for s in sentences if from_below("de", s) == s and s not in NO_SENTENCES] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_frame_has_no_gaps_left(session: Session, language: str) -> None:
    from cplsr.app.markup import frame_html
    from cplsr.app.view import View

    words: list[str] = []
    parser = HTMLParser()
    parser.handle_data = words.append  # type: ignore[method-assign]
    parser.feed(frame_html(session.shared, View(language=language)))  # type: ignore[arg-type]
    assert "{" not in "".join(words)
