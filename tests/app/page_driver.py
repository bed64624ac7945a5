"""The page under real conditions: a server, a browser, and a visitor who uses it as a person would."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cplsr.app.server import listen, make_server, page_address, private_folder
from cplsr.app.session import Shared
from cplsr.data.open import open_domain

PATIENCE_SECONDS = 180


@contextmanager
def serving(shared: Shared, hosts: Sequence[str] = ()) -> Iterator[str]:
    """The address of a running server. hosts: other names that it goes by."""
    ready = threading.Event()
    with listen("127.0.0.1", 0) as taken, private_folder() as folder:
        server = make_server(shared, folder, ready.set, hosts)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]})
        thread.start()
        try:
            if not ready.wait(PATIENCE_SECONDS):
                raise TimeoutError("the server did not start")
            yield page_address(taken)
        finally:
            server.should_exit = True
            thread.join(PATIENCE_SECONDS)


def rendered(folder: Path, names: dict[str, str], images: int) -> dict[str, list[Path]]:
    """Aerial pictures drawn by code, as PNG files. names: what the visitor calls the packaged domain's classes."""
    domain = open_domain("procedural:landcover")
    files: dict[str, list[Path]] = {}
    for class_name, shown in names.items():
        members = (domain.labels == domain.classes.index(class_name)).nonzero()[0][:images]
        files[shown] = [folder / f"{shown}-{number}.png" for number in range(len(members))]
        for file, index in zip(files[shown], members, strict=True):
            domain.reader(int(index)).save(file)
    return files


class Visitor:
    """What a person does on the page."""

    def __init__(self, driver: Any, address: str) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        self.driver = driver
        self.wait = WebDriverWait(driver, PATIENCE_SECONDS, poll_frequency=0.1)
        driver.get(address)
        self.wait.until(lambda _: self.all("#classes .empty, .class"))

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def read(self, selector: str, expression: str) -> list[Any]:
        """A JavaScript expression of every element `e` that matches, at one instant: the page may change any time."""
        script = f"return Array.from(document.querySelectorAll(arguments[0])).map(e => {expression})"
        return self.driver.execute_script(script, selector)

    def text(self, selector: str) -> str:
        return " ".join(self.read(selector, "e.innerText"))

    def drop(self, field: str, files: Sequence[Path]) -> None:
        """Files on a field; a browser gives them to the page the same way as when they are chosen."""
        self.all(f"#{field}")[0].send_keys("\n".join(str(file.resolve()) for file in files))

    def drag(self, field: str, paths: Sequence[Path]) -> None:
        """Files and folders dragged onto a field and let go there, as the browser itself sees it."""
        middle = "e.scrollIntoView({block: 'center', behavior: 'instant'}), (r => [r.x + r.width / 2, r.y + 9])"
        ((x, y),) = self.read(f"#{field}", f"({middle}(e.getBoundingClientRect()))")
        data = {"items": [], "files": [str(path.resolve()) for path in paths], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.driver.execute_cdp_cmd("Input.dispatchDragEvent", {"type": kind, "x": x, "y": y, "data": data})

    def name_class(self, name: str) -> None:
        field = self.all("#class-name")[0]
        field.clear()
        field.send_keys(name)

    def add_class(self, name: str, files: Sequence[Path]) -> None:
        """Type, drop, press the button, wait for the card and until nothing is under way."""
        before = self.class_note(name)
        self.name_class(name)
        self.drop("class-files", files)
        self.press("#add")
        self.wait.until(lambda _: self.class_note(name) not in ("", before))
        self.wait_until_idle()

    def wait_until_idle(self) -> None:
        self.wait.until(lambda _: not self.all("#root[aria-busy]") and not self.all(".uploading:not([hidden])"))

    def class_note(self, name: str) -> str:
        return self.text(f'.class[data-class="{name}"] .note')

    def classes(self) -> list[str]:
        return self.read(".class", "e.dataset.class")

    def label(self, files: Sequence[Path], expected: int | None = None) -> None:
        count = len(self.all(".answer")) + (len(files) if expected is None else expected)
        self.drop("query-files", files)
        self.wait.until(lambda _: len(self.all(".answer")) == count)
        self.wait_until_idle()

    def answers(self) -> dict[str, tuple[str, str]]:
        """Label and the note below it, by file name."""
        cells = "[e.dataset.name, e.querySelector('.label').innerText, e.querySelector('.note').innerText]"
        return {name: (label, note) for name, label, note in self.read(".answer", cells)}

    def ask_why(self, name: str) -> None:
        self.press(f'.answer[data-name="{name}"]')
        self.wait.until(lambda _: name in self.text("#detail h3"))

    def say(self, right: str) -> None:
        """What the picture in the panel really is."""
        self.press(f'#detail [data-right="{right}"]')
        self.wait.until(lambda _: "You said" in self.text("#detail"))
        self.wait_until_idle()

    def choose(self, name: str, value: str) -> None:
        """Set a list or a slider, as a hand does: the page is told once."""
        self.wait.until(lambda _: self.all(f"[name={name}]"))
        script = "const [e, v] = arguments; e.value = v; e.dispatchEvent(new Event('change', {bubbles: true}))"
        self.driver.execute_script(script, self.all(f"[name={name}]")[0], value)

    def type(self, selector: str, text: str) -> None:
        field = self.all(selector)[0]
        field.clear()
        field.send_keys(text)

    def press(self, selector: str) -> None:
        self.wait.until(lambda _: self.all(selector))
        self.driver.execute_script(
            "const e = document.querySelector(arguments[0]);"
            "e.scrollIntoView({block: 'center', behavior: 'instant'}); e.click();",
            selector,
        )

    def wait_for_message(self, words: str) -> str:
        self.wait.until(lambda _: words in self.text(".message"))
        return self.text(".message")

    def close_messages(self) -> None:
        self.read(".message button", "e.click()")

    def allow_downloads(self, folder: Path) -> None:
        self.driver.execute_cdp_cmd(
            "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder), "eventsEnabled": False}
        )

    def download(self, selector: str, file: Path) -> Path:
        self.press(selector)
        self.wait.until(lambda _: file.is_file())
        return file
