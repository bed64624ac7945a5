"""What a visitor takes home: the answers as a table, the classifier as a zip."""

from __future__ import annotations

import csv
import io
import tempfile
import zipfile
from pathlib import Path

from cplsr.app.session import Query, Session
from cplsr.classifier.csv_run import csv_row, safe_row
from cplsr.classifier.prediction import COLUMNS, Prediction
from cplsr.errors import InputError
from cplsr.files import new_file

CSV_COLUMNS = (*COLUMNS, "corrected")
"""Those of `cplsr classify`, and whether the label was given by hand."""
MODEL_FOLDER = "model"


def predictions_csv(session: Session) -> str:
    """The answers as csv: a row per picture in the order of arrival, then the unreadable files with the reason."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    rows = [_row(query) for query in session.queries]
    rows += [[*csv_row(Prediction(name, error=reason)), ""] for name, reason in session.unreadable]
    writer.writerows(map(safe_row, rows))
    return stream.getvalue()


def write_csv(session: Session, folder: Path) -> Path:
    """Write `predictions.csv` into a folder."""
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
        return [*csv_row(Prediction(query.picture.name, query.corrected, known=True)), "yes"]
    return [*csv_row(query.answer or Prediction(query.picture.name)), "no"]
