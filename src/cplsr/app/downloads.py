"""What a visitor takes home: answers as a table, pictures in folders, the classifier, a page that runs it."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterable
from itertools import chain, count
from pathlib import Path

from cplsr.app.session import Query, Session
from cplsr.app.texts import Said, TextError
from cplsr.app.view import View
from cplsr.classifier.csv_run import csv_row
from cplsr.classifier.prediction import COLUMNS, Prediction
from cplsr.files import new_file, write_file
from cplsr.report.tables import table

CSV_COLUMNS = (*COLUMNS, "corrected")
"""Those of `cplsr classify`, and whether the label was given by hand."""
LABELED_COLUMNS = ("path", "label", "origin", "confidence")
LEFT_OUT_COLUMNS = ("path", "origin", "error")
Written = tuple[Path, Said | None]


def predictions_csv(session: Session, view: View) -> str:
    """The answers as csv: a row per picture in the order of arrival, then the files that were left out, and why."""
    rows = [_row(query, view) for query in session.queries]
    left_out = [file for file in session.left_out if file.query]
    rows += [[*csv_row(Prediction(file.name, error=file.reason.in_language("en"))), ""] for file in left_out]
    return table("", CSV_COLUMNS, map(tuple, rows)).to_csv()


def write_csv(session: Session, view: View, folder: Path) -> Written:
    """Write `predictions.csv` into a folder."""
    if not session.queries and not session.left_out:
        raise TextError("no_answers_yet")
    return _written(folder / "predictions.csv", predictions_csv(session, view))


def write_left_out(session: Session, view: View, folder: Path) -> Written:
    """Write `left-out.csv`: the files that were not used, as examples or to be labeled, and why."""
    rows = [
        (file.name, "answer" if file.query else "example", file.reason.in_language("en")) for file in session.left_out
    ]
    return _written(folder / "left-out.csv", table("", LEFT_OUT_COLUMNS, rows).to_csv())


def write_labeled(session: Session, view: View, folder: Path) -> Written:
    """Write `labeled.zip`: the pictures as they came, in a folder for each class, and `labels.csv`.

    Examples go by the class they were given, other pictures by their answer, unless it is unknown.
    """
    labels = session.labels
    pictures = [(picture, labels[name], "example", "") for name, picture in session.examples.items()]
    for query in session.queries:
        if query.corrected is None and query.label and not view.is_unknown(query):
            pictures.append((query.picture, query.label, "answer", f"{query.confidence:.4f}"))
    if not pictures:
        raise TextError("no_labeled_yet")
    file, rows = folder / "labeled.zip", []
    folders = folder_names(dict.fromkeys(label for _, label, _, _ in pictures))
    # Pictures are compressed already.
    with new_file(file, "wb") as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for picture, label, origin, confidence in pictures:
            place = f"{folders[label]}/{picture.name}"
            archive.write(picture.file, place)
            rows.append((place, label, origin, confidence))
        archive.writestr("labels.csv", table("", LABELED_COLUMNS, rows).to_csv())
    return file, None


def write_model(session: Session, view: View, folder: Path) -> Written:
    """Write `model.zip`: one folder, `model`, which `cplsr classify --model` and `cplsr serve --model` read."""
    if session.classifier is None:
        raise TextError("no_model_yet")
    with tempfile.TemporaryDirectory() as temporary:
        return _zipped(session.classifier.save(Path(temporary) / "model"), folder), None


def write_browser_page(session: Session, view: View, folder: Path) -> Written:
    """Write `browser-page.zip`: the model as ONNX, and a page that runs it in a browser."""
    if session.classifier is None or not session.is_ready:
        raise TextError("nothing_to_choose")
    from cplsr.export.browser_page import RUNTIME_HASHES, export_browser_page

    with tempfile.TemporaryDirectory() as temporary, session.shared.lock:
        done = export_browser_page(session.classifier, Path(temporary) / "browser-page")
        file = _zipped(done.path, folder)
        runtime = sum((done.path / name).stat().st_size for name in RUNTIME_HASHES)
    megabytes = {"size": round(file.stat().st_size / 1e6), "runtime": round(runtime / 1e6)}
    return file, Said("browser_size", megabytes)


WRITERS = {
    "answers": write_csv,
    "left_out": write_left_out,
    "labeled": write_labeled,
    "model": write_model,
    "browser": write_browser_page,
}
"""What can be downloaded, as the browser calls it."""


def folder_names(labels: Iterable[str]) -> dict[str, str]:
    """A name that every file system takes for each class; no two are the same."""
    named: dict[str, str] = {}
    for label in labels:
        tidy = "".join("_" if sign in '\\/:*?"<>|' or not sign.isprintable() else sign for sign in label).strip(" .")
        tidy = tidy or "_"
        used = {name.lower() for name in named.values()}
        numbered = (f"{tidy} ({number})" for number in count(2))
        named[label] = next(name for name in chain([tidy], numbered) if name.lower() not in used)
    return named


def _zipped(source: Path, folder: Path) -> Path:
    """A folder as a zip of the same name."""
    file = folder / f"{source.name}.zip"
    with new_file(file, "wb") as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in sorted(source.rglob("*")):
            archive.write(part, part.relative_to(source.parent))
    return file


def _written(file: Path, text: str) -> Written:
    write_file(file, text)
    return file, None


def _row(query: Query, view: View) -> list[str]:
    if query.corrected is not None:
        return [*csv_row(Prediction(query.picture.name, query.corrected, known=True)), "yes"]
    answer = query.answer or Prediction(query.picture.name)
    return [*csv_row(answer.rejected() if view.is_unknown(query) else answer), "no"]
