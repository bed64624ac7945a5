"""A visit to the page in a real browser."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from oracles.chromium import chromium, console_errors, find_chromium, requested_urls
from page_driver import Visitor, rendered, serving

from cplsr.app.session import Shared
from cplsr.classifier.backbone_choice import prepared_backbone
from cplsr.classifier.few_shot_classifier import FewShotClassifier

pytest.importorskip("gradio", reason="the page needs gradio")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(find_chromium() is not None, reason=str(find_chromium()))]

GRADIO_MURMUR = "Method not implemented."
"""Gradio's own warning on the console, with no consequence that a visitor could notice."""
CLASSES = {"meadow": "meadow", "residential": "houses", "coast": "coast & <b>sea</b> {{x}}"}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(Shared(prepared_backbone("embedded"))) as place:
        yield place


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    short = {"meadow": "meadow", "residential": "houses", "coast": "coast"}
    pictures = rendered(tmp_path_factory.mktemp("pictures"), short, images=9)
    return {CLASSES["coast"] if name == "coast" else name: some for name, some in pictures.items()}


def test_a_visit(address: str, files: dict[str, list[Path]], tmp_path: Path) -> None:
    names = list(files)
    with chromium(1100, 900) as driver:
        visitor = Visitor(driver, address)
        visitor.allow_downloads(tmp_path)
        _teach(visitor, files)
        assert sorted(visitor.classes()) == sorted(names)
        assert "of 15 support images are recognized" in visitor.text("#estimate")

        queries = [*files[names[0]][5:9], *files[names[1]][5:8], *files[names[2]][5:8]]
        visitor.label(queries)
        answers = visitor.answers()
        assert set(answers) == {file.name for file in queries}
        assert all(label in names and note.endswith("% sure") for label, note in answers.values())
        truth = {file.name: name for name, some in files.items() for file in some}
        assert sum(label == truth[name] for name, (label, _) in answers.items()) >= 6

        asked = queries[0].name
        visitor.ask_why(asked)
        pictures = visitor.all("#detail img")
        assert len(pictures) == 7  # the picture, the overlay, five neighbors
        assert all(driver.execute_script("return arguments[0].naturalWidth", picture) > 0 for picture in pictures)
        visitor.say(names[1])
        assert visitor.class_note(names[1]).startswith("6 pictures")
        assert visitor.answers()[asked] == (names[1], "✓ given by you")

        rows = _rows(visitor.download("#csv", tmp_path / "predictions.csv"))
        assert [row["path"] for row in rows] == [file.name for file in queries]
        assert (rows[0]["label"], rows[0]["corrected"]) == (names[1], "yes")
        assert {row["path"]: row["label"] for row in rows[1:]} == {
            name: label for name, (label, _) in visitor.answers().items() if name != asked
        }
        with zipfile.ZipFile(visitor.download("#model", tmp_path / "model.zip")) as archive:
            archive.extractall(tmp_path)
        loaded = FewShotClassifier.load(tmp_path / "model")
        assert loaded.counts_.tolist() == [6 if name == names[1] else 5 for name in sorted(names)]
        again = {file.name: label for file, label in zip(queries, loaded.predict(queries), strict=True)}
        assert all(again[row["path"]] == row["label"] for row in rows[1:])

        visitor.press("#undo")
        visitor.wait.until(lambda _: visitor.class_note(names[1]).startswith("5 pictures"))
        asked_for = requested_urls(driver)
        assert len(asked_for) > 20
        assert [url for url in asked_for if not url.startswith((address, "blob:"))] == []
        assert [told for told in console_errors(driver) if GRADIO_MURMUR not in told] == []


def test_a_second_visitor_on_a_phone_sees_nothing_of_the_first(address: str, files: dict[str, list[Path]]) -> None:
    (first_name, first), (second_name, second), _ = files.items()
    with chromium(1100, 900) as one, chromium(390, 844, dark=True) as two:
        here, there = Visitor(one, address), Visitor(two, address)
        here.add_class(first_name, first[:2])
        there.add_class(second_name, second[:2])
        assert (here.classes(), there.classes()) == ([first_name], [second_name])
        there.add_class("mine", first[:2])
        here.add_class(second_name, second[2:4])
        assert sorted(here.classes()) == sorted([first_name, second_name])
        assert sorted(there.classes()) == sorted(["mine", second_name])
        width = two.execute_script("return document.documentElement.scrollWidth")
        assert width <= 390
        here.press(f'[data-remove="{second_name}"]')
        here.wait.until(lambda _: here.classes() == [first_name])
        assert len(there.classes()) == 2


def test_bad_files_and_missing_names_are_said_and_nothing_breaks(
    address: str, files: dict[str, list[Path]], tmp_path: Path
) -> None:
    garbage = tmp_path / "garbage.png"
    garbage.write_bytes(b"\x89PNG\r\n\x1a\n" + b"no picture" * 20)
    letter = tmp_path / "letter.txt"
    letter.write_text("dear reader")
    huge = tmp_path / "huge.png"
    huge.write_bytes(bytes(21_000_000))
    (one, first), (two, second), _ = files.items()
    with chromium(1100, 900) as driver:
        visitor = Visitor(driver, address)
        visitor.drop("class-files", [*first[:3], garbage, letter])
        visitor.wait.until(lambda _: len(visitor.all("#class-files .file-preview tr, #class-files tr.file")) >= 5)
        visitor.press("#add")
        visitor.wait_for_message("no name yet")
        visitor.close_messages()
        visitor.name_class(one)
        visitor.press("#add")  # the files are still there
        said = visitor.wait_for_message("garbage.png")
        assert "letter.txt" in said
        visitor.wait.until(lambda _: visitor.class_note(one).startswith("3 pictures"))
        visitor.close_messages()
        visitor.add_class(two, second[:3])
        visitor.label([garbage, first[5], letter], expected=1)
        assert "garbage.png" in visitor.wait_for_message("letter.txt")
        visitor.close_messages()
        visitor.drop("query-files", [huge])
        visitor.wait_for_message("maximum allowed size")
        visitor.close_messages()
        visitor.label([second[5]])
        assert set(visitor.answers()) == {first[5].name, second[5].name}


def _teach(visitor: Visitor, files: dict[str, list[Path]]) -> None:
    for name, some in files.items():
        visitor.add_class(name, some[:5])


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
