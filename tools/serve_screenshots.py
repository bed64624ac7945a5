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

DESKTOP, PHONE = (1180, 900), (390, 844)
CLASSES = {"meadow": "meadow", "residential": "houses", "coast": "coast"}
COLORS = 128


def main() -> None:
    """Visit, and write serve-*.png into the folder."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    out.mkdir(parents=True, exist_ok=True)
    shared = Shared(prepared_backbone("embedded"))
    with tempfile.TemporaryDirectory() as folder, serving(shared) as address:
        files = rendered(Path(folder), CLASSES, images=9)
        with chromium(*DESKTOP) as driver:
            visit(Visitor(driver, address), files)
            save_small(driver, out / "serve-desktop.png", whole=True)
        with chromium(*PHONE, dark=True) as driver:
            visit(Visitor(driver, address), files)
            driver.execute_script("document.querySelector('#detail').scrollIntoView({behavior: 'instant'})")
            save_small(driver, out / "serve-phone.png", whole=False)


def visit(visitor: Visitor, files: dict[str, list[Path]]) -> None:
    """Three classes of five examples, some answers, one of them explained."""
    for name, pictures in files.items():
        visitor.add_class(name, pictures[:5])
    visitor.label([picture for pictures in files.values() for picture in pictures[5:8]])
    visitor.ask_why(next(iter(visitor.answers())))


def save_small(driver: Any, out: Path, *, whole: bool) -> None:
    """What is on the screen, or the whole page; a palette is enough for it and keeps the file small."""
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": whole, "format": "png"})
    with Image.open(io.BytesIO(base64.b64decode(shot["data"]))) as image:
        image.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(out, optimize=True)
    print(f"{out}: {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
