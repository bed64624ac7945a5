from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cplsr.app.markup import SHOWN_EXAMPLES, answers_html, classes_html, detail_html, escape, estimate_html
from cplsr.app.session import Session, add_class, classify, correct, explain, remove_class, support_report
from cplsr.classifier.explanation import Explanation

Paint = Callable[..., list[Path]]
NASTY = "<img src=x> \"q\" 'p' & {{b}} ${c} `d`"


class Elements(HTMLParser):
    """Everything that opens, with its attributes, and the text in between."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data

    def having(self, attribute: str) -> list[str | None]:
        return [attributes[attribute] for _, attributes in self.found if attribute in attributes]


@pytest.fixture
def taught(session: Session, paint: Paint) -> Session:
    first = add_class(session, NASTY, paint("red", 3)).session
    return add_class(first, "green", paint("green", 12)).session


@given(st.text())
def test_escaped_text_reads_the_same_and_means_nothing_to_a_template(text: str) -> None:
    escaped = escape(text)
    assert not set("<>\"'{}$`") & set(escaped)
    parsed = Elements(f'<p title="{escaped}"></p>').having("title")
    assert parsed == [text] or "\r" in text or "\0" in text


def test_class_cards_show_names_counts_and_some_examples(taught: Session) -> None:
    page = Elements(classes_html(taught, support_report(taught)))
    assert page.having("data-class") == page.having("data-remove") == list(taught.classes)
    assert len([tag for tag, _ in page.found if tag == "img"]) == 3 + SHOWN_EXAMPLES
    assert f"+{12 - SHOWN_EXAMPLES}" in page.words
    assert "12 pictures" in page.words
    assert "recognized by the others" in page.words


def test_a_class_from_a_saved_model_has_tiles_without_pictures(taught: Session) -> None:
    from dataclasses import replace

    page = Elements(classes_html(replace(taught, examples={}), None))
    assert [tag for tag, _ in page.found if tag == "img"] == []
    assert page.words.count("?") == 3 + SHOWN_EXAMPLES


def test_the_estimate_is_the_report_in_words(session: Session, taught: Session, paint: Paint) -> None:
    assert estimate_html(session, None) == ""
    one = add_class(session, "red", paint("red", 1)).session
    assert "second class" in estimate_html(one, support_report(one))
    report = support_report(taught)
    assert report is not None
    words = " ".join(Elements(estimate_html(taught, report)).words.split())
    assert all(" ".join(sentence.split()) in words or sentence in words for sentence in report.sentences()[:1])
    assert Elements(classes_html(session, None)).words.startswith("No classes yet")


def test_answers_come_newest_first_with_label_and_confidence(taught: Session, paint: Paint) -> None:
    assert answers_html(taught) == ""
    asked = classify(taught, [*paint("red", 1), *paint("green", 1)]).session
    page = Elements(answers_html(asked, opened=0))
    assert page.having("data-answer") == ["1", "0"]
    assert page.having("data-name") == [query.picture.name for query in reversed(asked.queries)]
    opened = [attributes["class"] for _, attributes in page.found if "data-answer" in attributes]
    assert ["open" in str(style) for style in opened] == [False, True]
    for query in asked.queries:
        assert query.answer is not None
        assert query.answer.confidence is not None
        assert query.label in page.words
        assert f"{query.answer.confidence:.0%} sure" in page.words
    corrected = correct(asked, 0, "green").session
    assert "given by you" in answers_html(corrected)
    alone = remove_class(asked, "green").session
    assert "no answer" in answers_html(alone)


def test_the_detail_shows_neighbors_and_offers_every_class(taught: Session, paint: Paint) -> None:
    asked = classify(taught, paint("red", 1)).session
    page = Elements(detail_html(asked, 0, explain(asked, 0)))
    assert page.having("data-right") == list(asked.classes)
    assert len([tag for tag, _ in page.found if tag == "img"]) == 2 + 5
    said = correct(asked, 0, "green").session
    after = Elements(detail_html(said, 0, explain(said, 0)))
    assert after.having("data-right") == []
    assert "You said: green" in after.words


def test_a_picture_unlike_all_examples_is_flagged(taught: Session, paint: Paint) -> None:
    from dataclasses import replace

    asked = classify(taught, paint("red", 1)).session
    answer = asked.queries[0].answer
    assert answer is not None
    for score, flagged in ((0.95, True), (0.94, False), (None, False)):
        query = replace(asked.queries[0], answer=replace(answer, out_of_domain=score))
        assert ("unlike your examples" in answers_html(replace(asked, queries=(query,)))) == flagged


def test_an_overlay_is_enlarged_to_be_seen(taught: Session, paint: Paint) -> None:
    asked = classify(taught, paint("red", 1)).session
    told = Explanation("red", 0.5, None, (), np.zeros((2, 2), dtype=np.float32), Image.new("RGB", (32, 32)))
    source = detail_html(asked, 0, told).split("data:image/png;base64,")[1].split('"')[0]
    import base64
    import io

    with Image.open(io.BytesIO(base64.b64decode(source))) as shown:
        assert shown.size == (288, 288)
