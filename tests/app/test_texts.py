"""All texts of the page, in all languages."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cplsr.app import texts
from cplsr.app.actions import LANGUAGES
from cplsr.app.session import Session, support_report
from cplsr.app.steps import add_class
from cplsr.app.texts import FROM_BELOW, LANGUAGE_NAMES, SEPARATORS, TEXTS, Said, from_below, say

Paint = Callable[..., list[Path]]
APP = Path(texts.__file__).parent


def gaps(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


def test_no_text_is_missing_in_any_language() -> None:
    assert len(LANGUAGES) == len(LANGUAGE_NAMES) == len(SEPARATORS)
    for key, columns in TEXTS.items():
        assert len(columns) == len(LANGUAGES), key
        assert all(text.strip() for text in columns), key
        assert all(gaps(text) == gaps(columns[0]) for text in columns), key
    for wording, others in FROM_BELOW.items():
        assert len(others) == len(LANGUAGES) - 1, wording
        assert all(gaps(text) == gaps(wording) for text in others), wording


def test_every_text_that_is_used_is_in_the_table_and_none_is_idle() -> None:
    source = "\n".join(file.read_text(encoding="utf-8") for file in APP.glob("*.py") if file.name != "texts.py")
    named = set(re.findall(r'(?:say_?|speak|Said|TextError)\((?:\w+(?:\.\w+)?, |"en", )?"(\w+)"', source))
    named |= set(re.findall(r'_speaker\(view\)\("(\w+)"', source))
    assert named <= set(TEXTS)
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
    words = " ".join(german)
    assert not [word for word in (" the ", " taken ", "looks", "labeled", " of ", "choice") if word in words]
    assert from_below("de", "something new") == "something new"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_frame_has_no_gaps_left(session: Session, language: str) -> None:
    from cplsr.app.markup import frame_html
    from cplsr.app.view import View

    words: list[str] = []
    parser = HTMLParser()
    parser.handle_data = words.append  # type: ignore[method-assign]
    parser.feed(frame_html(session.shared, View(language=language)))  # type: ignore[arg-type]
    assert "{" not in "".join(words)
