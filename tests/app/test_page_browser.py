"""A visit to the page in a real browser."""

from __future__ import annotations

import csv
import re
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from oracles.chromium import chromium, console_errors, find_chromium, requested_urls
from oracles.npm_asset import npm_asset
from page_driver import Visitor, rendered, serving
from PIL import Image

from cplsr.app.session import Shared
from cplsr.app.uploads import Limits
from cplsr.app.view import PAGE
from cplsr.classifier.backbone_choice import prepared_backbone
from cplsr.classifier.few_shot_classifier import FewShotClassifier

pytest.importorskip("gradio", reason="the page needs gradio")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(find_chromium() is not None, reason=str(find_chromium()))]

GRADIO_MURMUR = "Method not implemented."
"""Gradio's own warning on the console, with no consequence that a visitor could notice."""
COLORS = {"red": (200, 40, 40), "green": (40, 190, 60), "blue": (40, 60, 200)}
THOUSAND = 1000  # 32 parts of an upload, 21 pages of answers
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
        assert "Of 100 new pictures like these, expect " in visitor.text("#estimate")

        queries = [*files[names[0]][5:9], *files[names[1]][5:8], *files[names[2]][5:8]]
        visitor.label(queries)
        answers = visitor.answers()
        assert set(answers) == {file.name for file in queries}
        assert all(label in names and note.endswith("% sure") for label, note in answers.values())
        truth = {file.name: name for name, some in files.items() for file in some}
        assert sum(label == truth[name] for name, (label, _) in answers.items()) >= 6

        visitor.press("#suggest")
        visitor.wait.until(lambda _: "10 would teach most" in visitor.text("#answers .note"))
        assert set(visitor.answers()) == {file.name for file in queries}
        visitor.choose("only", "")
        visitor.wait.until(lambda _: "would teach most" not in visitor.text("#answers"))

        asked = queries[0].name
        visitor.ask_why(asked)
        pictures = visitor.all("#detail img")
        assert len(pictures) == 7  # the picture, the overlay, five neighbors
        assert all(driver.execute_script("return arguments[0].naturalWidth", picture) > 0 for picture in pictures)
        visitor.say(names[1])
        assert visitor.class_note(names[1]).startswith("6 pictures")
        assert visitor.answers()[asked] == (names[1], "✓ given by you")

        rows = _rows(visitor.download("#answers [data-what=answers]", tmp_path / "predictions.csv"))
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

        with zipfile.ZipFile(visitor.download("#labeled", tmp_path / "labeled.zip")) as archive:
            assert len(archive.namelist()) == 15 + len(queries) + 1

        visitor.press("#undo")
        visitor.wait.until(lambda _: visitor.class_note(names[1]).startswith("5 pictures"))
        asked_for = requested_urls(driver)
        assert len(asked_for) > 20
        assert [url for url in asked_for if not url.startswith((address, "blob:"))] == []
        assert [told for told in console_errors(driver) if GRADIO_MURMUR not in told] == []


def test_examples_are_moved_classes_renamed_and_a_reload_keeps_everything(
    address: str, files: dict[str, list[Path]]
) -> None:
    (one, first), (two, second), _ = files.items()
    with chromium(1100, 900) as driver, chromium(1100, 900) as other:
        visitor = Visitor(driver, address)
        visitor.add_class(one, first[:3])
        visitor.add_class(two, [*second[:2], first[3]])
        visitor.label([first[5], second[5]])
        visitor.press(f'[data-do=open_example][data-picture="{first[3].name}"]')
        visitor.press(f'.example-panel [data-to="{one}"]')
        visitor.wait.until(lambda _: visitor.class_note(one).startswith("4 pictures"))
        visitor.press(f'.class[data-class="{two}"] .edit summary')
        visitor.type(f'form[data-name="{two}"] input', "town\n")
        visitor.wait.until(lambda _: visitor.classes() == [one, "town"])
        driver.refresh()
        visitor.wait.until(lambda _: visitor.classes() == [one, "town"])
        assert set(visitor.answers()) == {first[5].name, second[5].name}
        assert Visitor(other, address).classes() == []
        for classes in ([one, two], [one, two], ["x"]):
            visitor.press("#undo")
            visitor.wait_until_idle()
            if len(visitor.classes()) == 2 and classes == ["x"]:
                assert visitor.answers() == {}
        visitor.press(f'[data-do=open_example][data-picture="{first[3].name}"]')
        visitor.press(".example-panel [data-do=remove_example]")
        visitor.wait.until(lambda _: visitor.class_note(two).startswith("2 pictures"))


def test_a_thousand_files_in_folders_on_a_phone(address: str, tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    for color in COLORS:
        (tmp_path / "examples" / color).mkdir(parents=True)
    (tmp_path / "new" / "deeper").mkdir(parents=True)

    def paint(color: str, file: Path) -> None:
        pixels = np.array(COLORS[color]) + noise.integers(-40, 40, (12, 12, 3))
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file)

    for color in COLORS:
        for number in range(5):
            paint(color, tmp_path / "examples" / color / f"{number}.png")
    for number in range(THOUSAND):
        folder = tmp_path / "new" / ("deeper" if number % 2 else "")
        paint(list(COLORS)[number % 3], folder / f"{number:04}.png")
    (tmp_path / "new" / "notes.txt").write_text("dear reader")
    shutil.copy(tmp_path / "new" / "0000.png", tmp_path / "new" / "again.png")
    with chromium(390, 844) as driver:
        visitor = Visitor(driver, address)
        visitor.drop("class-folder", [tmp_path / "examples"])
        visitor.press("#add")
        visitor.wait.until(lambda _: sorted(visitor.classes()) == sorted(COLORS))
        visitor.wait_until_idle()
        visitor.drop("query-folder", [tmp_path / "new"])
        visitor.wait.until(lambda _: "left" in visitor.text("#query-drop .uploading"))  # the time that is left
        visitor.wait_until_idle()
        assert f"all ({THOUSAND:,})" in visitor.text("select[name=only] option")
        reasons = visitor.text(".left-out")
        visitor.read(".left-out summary", "e.click()")
        reasons = visitor.text(".left-out")
        assert "notes.txt: not an image of a known format" in reasons
        assert re.search(r"(again|0000)\.png: the same picture as", reasons)
        assert len(visitor.all(".answer")) == PAGE
        visitor.press("nav.pager [data-key=next]")
        visitor.wait.until(lambda _: f"Page 2 of {-(-THOUSAND // PAGE)}" in visitor.text(".pager"))
        visitor.choose("only", "class:red")
        visitor.wait.until(lambda _: {label for label, _ in visitor.answers().values()} == {"red"})
        visitor.choose("sort", "doubtful")
        visitor.wait_until_idle()
        shares = [int(note.split()[0]) for _, note in visitor.answers().values()]
        assert shares == sorted(shares)
        drag = "e.value = 1; e.dispatchEvent(new Event('input', {bubbles: true}))"  # and the slider is not let go
        driver.execute_script("const [e] = arguments; " + drag, visitor.all("[name=threshold]")[0])
        dragged = visitor.text(".threshold")
        assert re.search(rf"Unknown below 100 %\s+[\d,]+ of {THOUSAND:,} unknown", dragged)
        visitor.choose("threshold", "1")
        visitor.wait_until_idle()
        assert visitor.text(".threshold") == dragged
        visitor.wait.until(lambda _: f"of {THOUSAND:,} unknown" in visitor.text("#unknowns"))
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 390
        driver.execute_script("window.scrollTo({top: document.body.scrollHeight, behavior: 'instant'})")
        assert driver.execute_script("return scrollY") > 844
        assert 0 <= visitor.read("#undo", "e.getBoundingClientRect().top")[0] < 100  # stays in sight
        visitor.press("#undo")  # all parts at once
        visitor.wait.until(lambda _: not visitor.all(".answer"))
        assert sorted(visitor.classes()) == sorted(COLORS)


def test_files_and_folders_are_dragged_onto_the_page(
    address: str, files: dict[str, list[Path]], tmp_path: Path
) -> None:
    (one, first), (two, second), _ = files.items()
    for name, some in ((one, first), (two, second)):
        (tmp_path / "examples" / name).mkdir(parents=True)
        for file in some[:3]:
            shutil.copy(file, tmp_path / "examples" / name)
    _noisy(tmp_path / "many" / "deeper", 120)  # a browser lists a hundred at a time
    film = tmp_path / "many" / "film.mp4"
    film.write_bytes(bytes(21_000_000))
    with chromium(1100, 900) as driver:
        visitor = Visitor(driver, address)
        visitor.drag("class-drop", [tmp_path / "examples"])
        visitor.wait.until(lambda _: visitor.text("#chosen").startswith("6 files"))
        visitor.press("#add")
        visitor.wait.until(lambda _: sorted(visitor.classes()) == sorted([one, two]))
        visitor.wait_until_idle()
        visitor.drag("query-drop", [first[5], tmp_path / "many"])
        visitor.wait.until(lambda _: "all (121)" in visitor.text("select[name=only] option"))
        visitor.wait_until_idle()
        visitor.read(".left-out", "e.open = true")
        assert "film.mp4: not an image of a known format" in visitor.text(".left-out")
        uploads = [url for url in requested_urls(driver) if url.endswith("/gradio_api/upload")]
        assert len(uploads) == 2 + 4  # the film was not among them


def test_a_full_page_names_what_it_does_not_take_and_asks_for_no_more(
    files: dict[str, list[Path]], tmp_path: Path
) -> None:
    (one, first), (two, second), _ = files.items()
    _noisy(tmp_path / "new", 200)
    shared = Shared(prepared_backbone("embedded"), limits=Limits(answers=40))
    with serving(shared) as narrow, chromium(1100, 900) as driver:
        visitor = Visitor(driver, narrow)
        visitor.allow_downloads(tmp_path)
        visitor.add_class(one, first[:2])
        visitor.add_class(two, second[:2])
        requested_urls(driver)
        visitor.drop("query-folder", [tmp_path / "new"])
        visitor.wait.until(lambda _: "160 files were left out" in visitor.text(".left-out summary"))
        visitor.wait_until_idle()
        assert len(visitor.all(".answer")) == 40
        uploads = [url for url in requested_urls(driver) if url.endswith("/gradio_api/upload")]
        assert len(uploads) <= 4  # two parts fit, at least in part; two more may be under way
        messages = visitor.read(".message", "e.firstChild.textContent")
        assert len([text for text in messages if "files were left out" in text]) == 1
        assert len([text for text in messages if "The page holds 40 answers" in text]) == 1
        visitor.read(".left-out", "e.open = true")
        rows = _rows(visitor.download("#left_out", tmp_path / "left-out.csv"))
        assert len({row["path"] for row in rows}) == 160
        assert {row["error"] for row in rows} == {"The page holds 40 answers: download them, then clear the list."}


def test_by_keyboard_alone(address: str, files: dict[str, list[Path]], tmp_path: Path) -> None:
    from selenium.webdriver import ActionChains, Keys

    (one, first), (two, second), _ = files.items()
    with chromium(1100, 900) as driver:
        visitor = Visitor(driver, address)

        def press(*keys: str) -> None:
            ActionChains(driver).send_keys(*keys).perform()

        def tab_to(selector: str) -> None:
            """No other way than the tab key, which reaches everything."""
            for _ in range(80):
                press(Keys.TAB)
                if driver.execute_script("return document.activeElement.matches(arguments[0])", selector):
                    return
            raise AssertionError(f"{selector} cannot be reached")

        for name, some in ((one, first), (two, second)):
            tab_to("#class-name")
            press(name)
            tab_to("#class-files")  # the window in which files are chosen is not the page's
            visitor.drop("class-files", some[:3])
            tab_to("#add")
            press(Keys.ENTER)
            visitor.wait.until(lambda _, name=name: visitor.class_note(name).startswith("3 pictures"))
            visitor.wait_until_idle()
        tab_to("#query-files")
        visitor.label([first[5], first[6], second[5]])
        tab_to(".answer")
        press(Keys.ARROW_RIGHT)
        asked = driver.execute_script("return document.activeElement.dataset.name")
        assert asked == first[6].name
        press(Keys.ENTER)
        visitor.wait.until(lambda _: asked in visitor.text("#detail h3"))
        press(Keys.ESCAPE)
        visitor.wait.until(lambda _: not visitor.all(".detail"))
        assert driver.execute_script("return document.activeElement.dataset.name") == asked
        press("2")
        visitor.wait.until(lambda _: visitor.answers()[asked][1] == "✓ given by you")
        assert visitor.answers()[asked][0] == visitor.classes()[1]
        visitor.wait_until_idle()
        assert driver.execute_script("return document.activeElement.dataset.name") == first[5].name
        ActionChains(driver).key_down(Keys.CONTROL).send_keys("z").key_up(Keys.CONTROL).perform()
        visitor.wait.until(lambda _: visitor.answers()[asked][1] != "✓ given by you")
        visitor.wait_until_idle()
        tab_to("input[name=threshold]")
        press(*[Keys.ARROW_RIGHT] * 3)
        visitor.wait.until(lambda _: "Unknown below 3 %" in visitor.text(".threshold"))
        visitor.wait_until_idle()
        visitor.label([*first[7:], *_noisy(tmp_path, PAGE)], expected=PAGE - 3)
        tab_to(".answer:last-child")
        press(Keys.ARROW_DOWN)
        visitor.wait.until(lambda _: "Page 2 of 2" in visitor.text(".pager"))
        visitor.wait_until_idle()
        assert driver.execute_script("return document.activeElement.matches('.answer:first-child')")
        press(Keys.ARROW_LEFT)
        visitor.wait.until(lambda _: "Page 1 of 2" in visitor.text(".pager"))
        visitor.wait_until_idle()
        assert driver.execute_script("return document.activeElement.matches('.answer:last-child')")


@pytest.mark.parametrize(("width", "dark"), [(1100, False), (390, True)])
def test_no_serious_finding_of_axe(address: str, files: dict[str, list[Path]], width: int, dark: bool) -> None:
    with tarfile.open(npm_asset("axe-core-4.14.0")) as archive:
        source = archive.extractfile("package/axe.min.js")
        assert source is not None
        axe = source.read().decode()
    (one, first), (two, second), _ = files.items()
    with chromium(width, 900, dark=dark) as driver:
        visitor = Visitor(driver, address)

        def findings() -> list[str]:
            visitor.wait_until_idle()
            driver.execute_script(axe)
            found = driver.execute_async_script("axe.run(document).then(arguments[0])")
            serious = [rule for rule in found["violations"] if rule["impact"] in ("serious", "critical")]
            return [f"{rule['id']}: {node['html'][:200]}" for rule in serious for node in rule["nodes"]]

        assert findings() == []
        visitor.add_class(one, first[:3])
        visitor.add_class(two, second[:2])
        visitor.label([first[5], second[5], Path(__file__)], expected=2)
        visitor.ask_why(first[5].name)
        visitor.press("[data-do=open_example]")
        visitor.read("details", "e.open = true")
        visitor.choose("threshold", "1")
        assert findings() == []


def test_in_german(address: str, files: dict[str, list[Path]]) -> None:
    (one, first), (two, second), _ = files.items()
    with chromium(1100, 900) as driver:
        visitor = Visitor(driver, address)
        visitor.add_class(one, first[:2])
        visitor.add_class(two, second[:2])
        visitor.label([first[5]])
        visitor.choose("language", "de")
        visitor.wait.until(lambda _: "Bilder nach Beispielen" in visitor.text("h1"))
        words = visitor.text("#root").replace(first[5].name, "")
        assert "Von 100 neuen Bildern" in words
        assert not set(re.findall(r"\w+", words)) & {"the", "of", "pictures", "sure", "Undo", "with"}
        assert driver.execute_script("return document.documentElement.lang") == "de"
        driver.refresh()
        visitor.wait.until(lambda _: "Bilder nach Beispielen" in visitor.text("h1"))


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
        here.press(f'[data-do=remove_class][data-name="{second_name}"]')
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
        visitor.press("#add")
        visitor.wait_for_message("no pictures to add")
        visitor.drop("class-files", [*first[:3], garbage, letter])
        assert visitor.text("#chosen").startswith("5 files")
        visitor.press("#add")
        visitor.wait_for_message("no name yet")
        visitor.close_messages()
        visitor.name_class(one)
        visitor.press("#add")  # the files are still there
        visitor.wait_for_message("2 files were left out")
        visitor.wait.until(lambda _: visitor.class_note(one).startswith("3 pictures"))
        visitor.read(".left-out", "e.open = true")
        assert "letter.txt: not an image of a known format" in visitor.text(".left-out")
        assert "garbage.png: " in visitor.text(".left-out")
        visitor.close_messages()
        visitor.add_class(two, second[:3])
        visitor.label([garbage, first[5], letter], expected=1)
        visitor.wait.until(lambda _: "4 files were left out" in visitor.text(".left-out summary"))
        visitor.close_messages()
        visitor.drop("query-files", [huge])
        visitor.wait.until(lambda _: "5 files were left out" in visitor.text(".left-out summary"))
        assert "huge.png: larger than 20 MB" in visitor.text(".left-out")
        visitor.label([second[5]])
        assert set(visitor.answers()) == {first[5].name, second[5].name}


def _teach(visitor: Visitor, files: dict[str, list[Path]]) -> None:
    for name, some in files.items():
        visitor.add_class(name, some[:5])


def _noisy(folder: Path, count: int) -> list[Path]:
    """Small pictures of nothing, each different from the others."""
    noise = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{number:03}.png" for number in range(count)]
    for file in files:
        Image.fromarray(noise.integers(0, 256, (8, 8, 3)).astype(np.uint8)).save(file)
    return files


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
