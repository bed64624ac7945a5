"""What a visitor takes home: the answers as a table, the classifier as a zip."""

from __future__ import annotations

import csv
import io
import tempfile
import zipfile
from pathlib import Path

from cplsr.app.session import Query, Session
from cplsr.classifier.csv_run import COLUMNS
from cplsr.errors import InputError
from cplsr.files import csv_cell, new_file

CSV_COLUMNS = (*COLUMNS, "corrected")
"""Those of `cplsr classify`, and whether the label was given by hand."""
MODEL_FOLDER = "model"


def predictions_csv(session: Session) -> str:
    """One row per picture, in the order of arrival; unreadable files come last, with the reason."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    rows = [_row(query) for query in session.queries]
    rows += [[name, "", "", "", "", "", reason, ""] for name, reason in session.unreadable]
    writer.writerows([csv_cell(text) for text in row] for row in rows)
    return stream.getvalue()


def write_csv(session: Session, folder: Path) -> Path:
    """Write `predictions.csv`."""
    if not session.queries and not session.unreadable:
        raise InputError("There are no answers to download yet: drop pictures to label first.")
    file = folder / "predictions.csv"
    with new_file(file) as stream:
        stream.write(predictions_csv(session))
    return file


def write_model(session: Session, folder: Path) -> Path:
    """Write `model.zip`: one folder, `model`, which `cplsr classify --model` and `cplsr serve --model` read."""
    if session.classifier is None:
        raise InputError("There is no model to download yet: add a class first.")
    file = folder / f"{MODEL_FOLDER}.zip"
    with tempfile.TemporaryDirectory() as temporary:
        saved = session.classifier.save(Path(temporary) / MODEL_FOLDER)
        with new_file(file, "wb") as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for part in sorted(saved.rglob("*")):
                archive.write(part, part.relative_to(saved.parent))
    return file


def _row(query: Query) -> list[str]:
    if query.corrected is not None:
        return [query.picture.name, query.corrected, "", "", "", "yes", "", "yes"]
    if query.answer is None:
        return [query.picture.name, "", "", "", "", "", "", "no"]
    answer = query.answer
    return [
        query.picture.name,
        answer.label,
        _figure(answer.confidence),
        answer.runner_up,
        _figure(answer.runner_up_confidence),
        "yes",
        "",
        "no",
    ]


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
