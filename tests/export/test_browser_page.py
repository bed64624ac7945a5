"""A classifier as a page: where its runtime comes from, and what it answers in a real browser."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracles.chromium import chromium, console_errors, find_chromium, requested_urls
from oracles.npm_asset import npm_asset
from PIL import Image

from cplsr.backbones.backbone import Backbone
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.environment import cache_folder
from cplsr.errors import InputError
from cplsr.export import browser_page
from cplsr.export.browser_page import RUNTIME_HASHES, RUNTIME_VERSION, export_browser_page, find_runtime

PACKAGE = f"onnxruntime-web-{RUNTIME_VERSION}"
CLASSES = ("Käfer", "a <b>, c", "plain")


def packed(file: Path, contents: dict[str, bytes]) -> Path:
    """A package as npm packs it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"package/dist/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file


@pytest.fixture
def contents(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A small runtime, and its hashes where those of the real one stand."""
    small = {name: name.encode() for name in RUNTIME_HASHES}
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in small.items()}
    monkeypatch.setattr(browser_page, "RUNTIME_HASHES", hashes)
    return small


@pytest.fixture
def npm(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """No npm but one that is asked in vain; the commands that it was given."""
    asked: list[list[str]] = []

    def run(command: list[str], **options: object) -> None:
        asked.append(command)
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(subprocess, "run", run)
    return asked


def test_a_package_in_the_cache_is_unpacked_once_and_npm_is_not_asked(
    contents: dict[str, bytes], npm: list[list[str]]
) -> None:
    package = packed(cache_folder() / f"{PACKAGE}.tgz", contents | {"ort.js": b"is not needed"})
    folder = find_runtime()
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == contents
    package.unlink()
    assert find_runtime() == folder
    assert npm == []


def test_a_file_that_is_not_the_right_one_is_refused_and_nothing_is_kept(
    contents: dict[str, bytes], npm: list[list[str]]
) -> None:
    name = next(iter(contents))
    package = packed(cache_folder() / f"{PACKAGE}.tgz", contents | {name: b"something else"})
    with pytest.raises(InputError, match=f"{name} of .* is not the file it should be, and was not used"):
        find_runtime()
    packed(package, {name: contents[name]})
    with pytest.raises(InputError, match=r"has no package/dist/.*: it is not the package that was asked for"):
        find_runtime()
    assert list(cache_folder().iterdir()) == [package]


def test_a_file_that_was_changed_in_the_cache_is_brought_again(contents: dict[str, bytes]) -> None:
    packed(cache_folder() / f"{PACKAGE}.tgz", contents)
    name = next(iter(contents))
    (find_runtime() / name).write_bytes(b"something else")
    assert (find_runtime() / name).read_bytes() == contents[name]


@pytest.mark.parametrize("offline", [True, False])
def test_what_npm_cannot_bring_is_a_sentence_and_offline_it_opens_no_connection(
    npm: list[list[str]], monkeypatch: pytest.MonkeyPatch, offline: bool
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", str(int(offline)))
    reason = r"downloads are forbidden \(HF_HUB_OFFLINE\)" if offline else r"npm could not bring it \(no network\?\)"
    with pytest.raises(
        InputError, match=rf"needs onnxruntime-web@.* once, and {reason}: run 'npm pack .*{PACKAGE}.tgz"
    ):
        find_runtime()
    assert [command[:2] for command in npm] == [["/bin/npm", "pack"]]
    assert [part for command in npm for part in command if part == "--offline"] == ["--offline"] * offline
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(InputError, match="npm, which brings it, is not here: run 'npm pack "):
        find_runtime()


def test_what_npm_brings_is_kept(contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **options: object) -> None:
        packed(Path(command[-1]) / f"{PACKAGE}.tgz", contents)

    monkeypatch.setattr(subprocess, "run", run)
    folder = find_runtime()
    assert [file.name for file in cache_folder().iterdir()] == [folder.name]


@pytest.fixture
def classifier(backbone: Backbone, tmp_path: Path) -> FewShotClassifier:
    files, labels = [], []
    for number, name in enumerate(CLASSES):
        for seed in range(3):
            files.append(str(painted(tmp_path / f"{number}-{seed}.png", 10 * number + seed, number)))
            labels.append(name)
    return FewShotClassifier(backbone, workers=0).fit(files, labels)


def painted(file: Path, seed: int, channel: int, size: tuple[int, int] = (60, 45), **options: Any) -> Path:
    """Blotches in which one color prevails."""
    noise = np.random.default_rng(seed).integers(0, 160, (5, 6, 3))
    noise[..., channel] += 90
    Image.fromarray(noise.astype(np.uint8)).resize(size, Image.Resampling.BICUBIC).save(file, **options)
    return file


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address at which a folder can be seen, by nothing but the server that the page's README names."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *told: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.browser
@pytest.mark.skipif(find_chromium() is not None, reason=str(find_chromium()))
def test_the_page_answers_as_the_classifier_does_and_asks_nobody_else(
    classifier: FewShotClassifier, tmp_path: Path
) -> None:
    cache_folder().mkdir(parents=True)
    shutil.copy(npm_asset(PACKAGE), cache_folder())
    page = export_browser_page(classifier, tmp_path / "page").path
    turned = Image.Exif()
    turned[0x0112] = 6
    queries = [
        painted(tmp_path / "small.png", 100, 0, (20, 90)),
        painted(tmp_path / "large.png", 101, 1, (400, 333)),
        painted(tmp_path / "turned.png", 102, 2, (50, 200), exif=turned),
        tmp_path / "clear.png",
    ]
    gray = np.random.default_rng(1).integers(0, 256, (30, 40, 2), dtype=np.uint8)
    gray[..., 1] = 255 * (gray[..., 1] > 128)  # parts of it are transparent, and nothing is half so
    Image.fromarray(gray, "LA").save(queries[-1])
    notes = tmp_path / "notes.png"
    notes.write_text("dear reader")
    with served(page) as address, chromium(390, 844) as driver:
        from selenium.webdriver.support.ui import WebDriverWait

        wait = WebDriverWait(driver, 60, poll_frequency=0.1)

        def status() -> str:
            return driver.execute_script("return document.getElementById('status').textContent")

        driver.get(address)
        wait.until(lambda _: status() == "Ready.")
        for query in queries:
            driver.find_element("id", "file").send_keys(str(query))
            wait.until(lambda _, query=query: status() == query.name)
            script = "return [...document.querySelectorAll('#answers li')].map(e => [e.dataset.name, e.dataset.share])"
            shares = {name: float(share) for name, share in driver.execute_script(script)}
            wanted = dict(zip(classifier.classes_, classifier.predict_proba([str(query)])[0], strict=True))
            assert shares == pytest.approx(wanted, abs=2e-3), query.name
            assert list(shares) == sorted(shares, key=lambda name: -shares[name])
        driver.find_element("id", "file").send_keys(str(notes))
        wait.until(lambda _: status() == "That cannot be read as a picture.")
        assert driver.find_elements("css selector", "#answers li") == []
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 390
        asked = requested_urls(driver)
        assert {url.removeprefix(address) for url in asked if url.startswith(address)} >= {"model.onnx", "model.json"}
        assert [url for url in asked if not url.startswith((address, f"blob:{address}"))] == []
        driver.set_script_timeout(10)
        elsewhere = "fetch('http://localhost:9/').then(() => arguments[0]('sent'), () => arguments[0]('refused'))"
        assert driver.execute_async_script(elsewhere) == "refused"
        assert any("Content Security Policy" in told for told in console_errors(driver))
    assert json.loads((page / "model.json").read_text())["classes"] == sorted(CLASSES)


def test_a_package_that_a_test_needs_is_skipped_or_missed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CPLSR_TEST_ASSETS", str(tmp_path))
    with pytest.raises(pytest.fail.Exception, match="make test-assets"):
        npm_asset("axe-core-0")
    monkeypatch.delenv("CPLSR_TEST_ASSETS")
    with pytest.raises(pytest.skip.Exception, match="make test-assets"):
        npm_asset("axe-core-0")
    (tmp_path / "axe-core-0.tgz").touch()
    monkeypatch.setenv("CPLSR_TEST_ASSETS", str(tmp_path))
    assert npm_asset("axe-core-0").is_file()
