"""A classifier as a folder with a page that runs it in any browser: file or camera in, classes out, nothing sent."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path

from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.data.preprocess import crop_of
from cplsr.environment import cache_folder, is_offline
from cplsr.errors import InputError
from cplsr.export.destination import check_free_folder
from cplsr.export.exported import Exported
from cplsr.export.to_onnx import export_onnx, head_of
from cplsr.files import new_folder, sha256_of, write_json

PAGE = Path(__file__).with_name("browser")
RUNTIME_VERSION = "1.30.0"
RUNTIME_HASHES = {
    "ort.wasm.min.mjs": "219e6a1fc8a9938268d18efca3c91d310bd2f4a59bbd13744df5b2b7fc6cee3b",
    "ort-wasm-simd-threaded.mjs": "e13f7f94fc51b4ca72b12faeb1ee95f4ace6dfbc8939bc718aabdc0a27c4299b",
    "ort-wasm-simd-threaded.wasm": "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
}
"""What is taken of the npm package onnxruntime-web to run models in a browser, and the SHA-256 of each file."""
PATIENCE_SECONDS = 300
README = """# A model in the browser

`index.html` runs `model.onnx` in the browser, on a file or on the camera; nothing is sent anywhere. Browsers load such
pages from a server only, not from a file:

    python3 -m http.server --directory . 8000

and open http://localhost:8000. Any web space that serves plain files will do; the camera needs https there.

`ort*` are files of onnxruntime-web {version} (MIT license, Copyright (c) Microsoft Corporation).
"""


def export_browser_page(classifier: FewShotClassifier, folder: str | Path) -> Exported:
    """Write a new folder with a page, the classifier as an ONNX graph, and what runs it in a browser."""
    folder = Path(folder)
    check_free_folder(folder)
    runtime = find_runtime()
    backbone, head = classifier.backbone_, head_of(classifier.head_)
    side, margin = crop_of(backbone.image_size)
    with new_folder(folder) as place:
        done = export_onnx(backbone, place / "model.onnx", raw_pixels=True, head=head)
        about = {
            "classes": list(head.classes),
            "image_size": backbone.image_size,
            "resize_to": side,
            "margin": margin,
        }
        write_json(place / "model.json", about)
        (place / "README.md").write_text(README.format(version=RUNTIME_VERSION), encoding="utf-8")
        for part in (*PAGE.iterdir(), *(runtime / name for name in RUNTIME_HASHES)):
            shutil.copyfile(part, place / part.name)
    return replace(done, path=folder)


def find_runtime() -> Path:
    """The folder of onnxruntime-web's files, in the cache; npm brings them there, or somebody has put its .tgz."""
    folder = cache_folder() / f"onnxruntime-web-{RUNTIME_VERSION}"
    if all((folder / name).is_file() and sha256_of(folder / name) == RUNTIME_HASHES[name] for name in RUNTIME_HASHES):
        return folder
    package = folder.with_name(f"{folder.name}.tgz")
    with tempfile.TemporaryDirectory() as temporary:
        _unpack(package if package.is_file() else _fetch(Path(temporary), package), folder)
    return folder


def _fetch(folder: Path, wanted: Path) -> Path:
    """The package as npm brings it, from whatever registry it is set to; offline, from npm's own cache."""
    package = f"onnxruntime-web@{RUNTIME_VERSION}"
    npm, offline = shutil.which("npm"), ["--offline"] if is_offline() else []
    command = [npm or "npm", "pack", package, *offline, "--ignore-scripts", "--pack-destination", str(folder)]
    try:
        subprocess.run(command, cwd=folder, capture_output=True, check=True, timeout=PATIENCE_SECONDS)
    except (subprocess.SubprocessError, OSError) as error:
        reason = "npm could not bring it (no network?)"
        if npm is None:
            reason = "npm, which brings it, is not here"
        elif offline:
            reason = "downloads are forbidden (HF_HUB_OFFLINE)"
        raise InputError(
            f"a page for browsers needs {package} once, and {reason}: run 'npm pack {package}' where there is a "
            f"network and put the file at {wanted}, or export --to onnx"
        ) from error
    return next(folder.glob("onnxruntime-web-*.tgz"))


def _unpack(package: Path, folder: Path) -> None:
    """Take the files that are needed out of the package; only if they are what they should be."""
    with tarfile.open(package) as archive, new_folder(folder) as place:
        for name, wanted in RUNTIME_HASHES.items():
            (place / name).write_bytes(_content(archive, f"package/dist/{name}"))
            if sha256_of(place / name) != wanted:
                raise InputError(f"{name} of {package} is not the file it should be, and was not used: remove that")


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name) if name in archive.getnames() else None
    if file is None:
        raise InputError(f"{archive.name!r} has no {name}: it is not the package that was asked for")
    return file.read()
