from __future__ import annotations

import json
from copy import copy
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracles.color_folders import Paint
from PIL import Image

from cplsr.app.answers import answers_html
from cplsr.app.markup import (
    SHOWN_EXAMPLES,
    classes_html,
    detail_html,
    estimate_html,
    frame_html,
    left_out_html,
    network_sentence,
)
from cplsr.app.session import Session, explain, support_report
from cplsr.app.steps import add_class, classify, correct, remove_class
from cplsr.app.view import PAGE, View
from cplsr.classifier.explanation import Explanation

VIEW = View()
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


def test_class_cards_show_names_counts_and_some_examples(taught: Session) -> None:
    page = Elements(classes_html(taught, support_report(taught), VIEW))
    assert page.having("data-class") == list(taught.classes)
    for name in ("remove_class", "rename_class"):
        targets = [told["data-name"] for _, told in page.found if told.get("data-do") == name]
        assert targets == list(taught.classes)
    assert len([tag for tag, _ in page.found if tag == "img"]) == 3 + SHOWN_EXAMPLES
    assert f"{12 - SHOWN_EXAMPLES} more" in page.words
    assert "12 pictures" in page.words
    assert "recognized by the others" in page.words
    wide = View(expanded=("green", 48), example=taught.examples_of(NASTY)[0][0])
    more = Elements(classes_html(taught, None, wide))
    assert len([tag for tag, _ in more.found if tag == "img"]) == 3 + 12
    offered = [told for _, told in more.found if told.get("data-do") in ("move_example", "remove_example")]
    assert [(told["data-picture"], told.get("data-to")) for told in offered] == [
        (wide.example, "green"),
        (wide.example, None),
    ]


def test_a_class_from_a_saved_model_has_tiles_without_pictures(taught: Session) -> None:
    from dataclasses import replace

    page = Elements(classes_html(replace(taught, examples={}), None, VIEW))
    assert [tag for tag, _ in page.found if tag == "img"] == []
    assert page.words.count("?") == 3 + SHOWN_EXAMPLES


def test_the_estimate_is_the_report_in_words(session: Session, taught: Session, paint: Paint) -> None:
    assert estimate_html(session, None, VIEW) == ""
    one = add_class(session, "red", paint("red", 1)).session
    assert "second class" in estimate_html(one, support_report(one), VIEW)
    report = support_report(taught)
    assert report is not None
    words = " ".join(Elements(estimate_html(taught, report, VIEW)).words.split())
    assert all(" ".join(sentence.split()) in words or sentence in words for sentence in report.sentences()[:1])
    assert Elements(classes_html(session, None, VIEW)).words.startswith("No classes yet")


def test_answers_come_newest_first_with_label_and_confidence(taught: Session, paint: Paint) -> None:
    assert answers_html(taught, VIEW) == ""
    asked = classify(taught, [*paint("red", 1), *paint("green", 1)]).session
    page = Elements(answers_html(asked, View(opened=0)))
    assert page.having("data-answer") == ["1", "0"]
    assert page.having("data-name") == [query.picture.name for query in reversed(asked.queries)]
    opened = [attributes["class"] for _, attributes in page.found if "data-answer" in attributes]
    assert ["open" in str(style) for style in opened] == [False, True]
    for query in asked.queries:
        assert query.answer is not None
        assert query.answer.confidence is not None
        assert query.label in page.words
        assert f"{100 * query.answer.confidence:.0f} % sure" in page.words
    corrected = correct(asked, 0, "green").session
    assert "given by you" in answers_html(corrected, VIEW)
    alone = remove_class(asked, "green").session
    assert "no answer" in answers_html(alone, VIEW)


def test_the_detail_shows_neighbors_and_offers_every_class(taught: Session, paint: Paint) -> None:
    asked = classify(taught, paint("red", 1)).session
    page = Elements(detail_html(asked, View(opened=0), explain(asked, 0)))
    assert page.having("data-right") == list(asked.classes)
    assert len([tag for tag, _ in page.found if tag == "img"]) == 2 + 5
    said = correct(asked, 0, "green").session
    after = Elements(detail_html(said, View(opened=0), explain(said, 0)))
    assert after.having("data-right") == [NASTY]
    assert "You said: green" in after.words


def test_a_picture_unlike_all_examples_is_flagged(taught: Session, paint: Paint) -> None:
    from dataclasses import replace

    asked = classify(taught, paint("red", 1)).session
    answer = asked.queries[0].answer
    assert answer is not None
    for score, flagged in ((0.95, True), (0.94, False), (None, False)):
        query = replace(asked.queries[0], answer=replace(answer, out_of_domain=score))
        assert ("unlike your examples" in answers_html(replace(asked, queries=(query,)), VIEW)) == flagged


def test_an_overlay_is_enlarged_to_be_seen(taught: Session, paint: Paint) -> None:
    asked = classify(taught, paint("red", 1)).session
    told = Explanation("red", 0.5, None, (), np.zeros((2, 2), dtype=np.float32), Image.new("RGB", (32, 32)))
    source = detail_html(asked, View(opened=0), told).split("data:image/png;base64,")[1].split('"')[0]
    import base64
    import io

    with Image.open(io.BytesIO(base64.b64decode(source))) as shown:
        assert shown.size == (288, 288)


def test_answers_are_sorted_selected_and_paged(taught: Session, paint: Paint) -> None:
    from dataclasses import replace

    asked = classify(taught, [*paint("red", 4), *paint("green", 3)]).session
    many = replace(asked, queries=asked.queries * 9)  # 63

    def shown(view: View) -> list[int]:
        return [int(str(number)) for number in Elements(answers_html(many, view)).having("data-answer")]

    assert shown(VIEW) == list(range(62, 62 - PAGE, -1))
    assert shown(View(page=1)) == shown(View(page=99)) == list(range(62 - PAGE, -1, -1))
    sure = [many.queries[position].confidence for position in shown(View(sort="surest"))]
    assert sure == sorted(sure, reverse=True)
    unsure = [many.queries[position].confidence for position in shown(View(sort="doubtful"))]
    assert unsure == sorted(unsure)
    names = [many.queries[position].picture.name for position in shown(View(sort="name"))]
    assert names == sorted(names)
    for name in taught.classes:
        only = shown(View(only=f"class:{name}", sort="name"))
        assert all(many.queries[position].label == name for position in only)
    by_class = [many.queries[position] for position in shown(View(sort="class"))]
    assert by_class == sorted(by_class, key=lambda query: (query.label, -query.confidence))
    middle = sorted(query.confidence for query in asked.queries)[3]
    strict = View(threshold=middle, only="unknown")
    assert len(shown(strict)) == 27
    assert "27 of 63 unknown" in answers_html(many, strict)
    (counts,) = Elements(answers_html(many, VIEW)).having("data-unknown")
    numbers = json.loads(str(counts))
    assert numbers == [sum(q.confidence < share / 100 for q in many.queries) for share in range(101)]
    corrected = correct(asked, 0, "green").session
    assert "given by you (1)" in answers_html(corrected, View(threshold=1.0))
    assert "6 of 7 unknown" in answers_html(corrected, View(threshold=1.0))
    assert Elements(answers_html(many, VIEW)).having("data-name")[0] == many.queries[-1].picture.name


def test_the_order_that_is_shown_is_the_order_there_is(taught: Session, paint: Paint) -> None:
    asked = classify(taught, [*paint("red", 2), *paint("green", 2)]).session
    names = [query.picture.name for query in asked.queries]

    def chosen(view: View) -> tuple[str | None, list[str | None]]:
        page = Elements(answers_html(asked, view))
        sort, _ = (told["value"] for _, told in page.found if "selected" in told)
        return sort, page.having("data-name")

    order = ((names[2], "unlike the examples"), (names[0], "stands for pictures in doubt"))
    assert "teaches most" not in answers_html(asked, VIEW)
    assert chosen(View(only="next", sort="next", next=order)) == ("next", [names[2], names[0]])
    assert chosen(View(only="next", sort="name", next=order)) == ("name", sorted([names[2], names[0]]))
    assert chosen(View(sort="next", next=order))[1][:2] == [names[2], names[0]]
    assert chosen(View(next=order)) == ("newest", names[::-1])


def test_files_that_were_left_out_are_named_with_the_reason(taught: Session, tmp_path: Path) -> None:
    assert left_out_html(taught, VIEW) == ""
    bad = tmp_path / "<b>.png"
    bad.write_text("dear reader")
    asked = classify(taught, [bad]).session
    words = Elements(left_out_html(asked, VIEW)).words
    assert "1 files were left out" in words
    assert "<b>.png: not an image of a known format" in words
    assert "kein Bild in einem bekannten Format" in left_out_html(asked, View(language="de"))


def test_the_page_says_which_network_is_in_use_and_what_for(session: Session) -> None:
    backbone: Any = copy(session.shared.backbone)

    def said(source: str, adapter: object = None) -> str:
        backbone.source, backbone.adapter = source, adapter
        return network_sentence(backbone, VIEW)

    assert "embedded with an adapter, 32 × 32 pixels. It is small" in said("embedded", 1)
    assert "facebook/dino-vits16, 32" in said("facebook/dino-vits16")
    assert "photographs" in said("facebook/dinov2-small")
    assert "depends on what it was trained on" in said("/home/x/vit.safetensors")
    assert 'lang="de"' in frame_html(session.shared, View(language="de"))
