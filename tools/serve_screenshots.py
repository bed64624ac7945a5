"""Make the screenshots of docs/serve.md: a visit to the page in headless Chromium, on a desktop and on a phone.

python tools/serve_screenshots.py [FOLDER]
"""

from __future__ import annotations

import base64
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "app"), str(ROOT / "src")]

from oracles.chromium import chromium  # noqa: E402
from page_driver import Visitor, rendered, serving  # noqa: E402
from PIL import Image  # noqa: E402

from cplsr.app.session import Shared  # noqa: E402
from cplsr.classifier.backbone_choice import prepared_backbone  # noqa: E402

DESKTOP, PHONE = (1100, 900), (390, 844)
CLASSES = {"meadow": "meadow", "residential": "houses", "coast": "coast"}
COLORS = 128


def main() -> None:
    """Visit, and write serve-*.png into the folder."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    out.mkdir(parents=True, exist_ok=True)
    shared = Shared(prepared_backbone("embedded"))
    with tempfile.TemporaryDirectory() as folder, serving(shared) as address:
        files = rendered(Path(folder), CLASSES, images=8)
        with chromium(*DESKTOP) as driver:
            visit(Visitor(driver, address), files)
            save_small(driver, out / "serve-desktop.png", whole=True)
        with chromium(*DESKTOP, dark=True) as driver:
            ask_what_next(Visitor(driver, address), files)
            save_small(driver, out / "serve-dark.png", whole=False)
        with chromium(*PHONE) as driver:
            visit(Visitor(driver, address), files)
            driver.execute_script("document.querySelector('#detail').scrollIntoView({behavior: 'instant'})")
            save_small(driver, out / "serve-phone.png", whole=False)


def teach(visitor: Visitor, files: dict[str, list[Path]], examples: int) -> None:
    """Three classes, and the rest of the pictures to be labeled."""
    for name, pictures in files.items():
        visitor.add_class(name, pictures[:examples])
    visitor.label([picture for pictures in files.values() for picture in pictures[examples:]])
    visitor.driver.execute_script("document.activeElement.blur()")


def visit(visitor: Visitor, files: dict[str, list[Path]]) -> None:
    """Five examples of each class; one of the answers is explained."""
    teach(visitor, files, examples=5)
    visitor.ask_why(next(iter(visitor.answers())))


def ask_what_next(visitor: Visitor, files: dict[str, list[Path]]) -> None:
    """Two examples of each class, a threshold, and the pictures that are worth labeling."""
    teach(visitor, files, examples=2)
    visitor.choose("threshold", "0.8")
    visitor.wait_until_idle()
    visitor.press("#suggest")
    visitor.wait.until(lambda _: "would teach most" in visitor.text("#answers"))
    visitor.wait_until_idle()
    visitor.driver.execute_script("window.scrollTo({top: 0, behavior: 'instant'})")


def save_small(driver: Any, out: Path, *, whole: bool) -> None:
    """What is on the screen, or the whole page; a palette is enough for it and keeps the file small."""
    if whole:  # else the bar with Undo, which stays in sight, stands in the middle of it
        driver.execute_script("window.scrollTo({top: 0, behavior: 'instant'})")
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": whole, "format": "png"})
    with Image.open(io.BytesIO(base64.b64decode(shot["data"]))) as image:
        image.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(out, optimize=True)
    print(f"{out}: {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
