"""Predictions streamed to a csv file, in a run that can be interrupted and continued."""

from __future__ import annotations

import csv
import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.classifier.no_class import check_rejection
from cplsr.classifier.prediction import COLUMNS, Prediction
from cplsr.data.domain import Domain
from cplsr.data.listing import TABLES
from cplsr.errors import InputError
from cplsr.files import check_writable, csv_cell, new_file, only_writer, text_of_csv_cell, write_json, writing

CLASSES_SHOWN = 20
REASONS_SHOWN = 3
CsvRow = list[str]


@dataclass(frozen=True)
class CsvSummary:
    """What a file of predictions holds: how many images got each class, are unknown, or cannot be read, and why.

    Classes and reasons begin with the most frequent; the mean confidence is over all images that were read.
    """

    labels: dict[str, int]
    unknown: int
    errors: int
    mean_confidence: float | None
    reasons: dict[str, int] = field(default_factory=dict)

    @property
    def images(self) -> int:
        """How many images there are, the unknown and the unreadable ones included."""
        return sum(self.labels.values()) + self.unknown + self.errors

    def lines(self) -> list[str]:
        """Say how many images got each class, how many are unknown or could not be read, and the mean confidence."""
        shown = list(self.labels.items())[:CLASSES_SHOWN]
        width = max((len(name) for name, _ in shown), default=0)
        lines = [f"  {name:<{width}}  {images:,}" for name, images in shown]
        if len(self.labels) > CLASSES_SHOWN:
            lines.append(f"  and {len(self.labels) - CLASSES_SHOWN:,} more classes")
        if self.unknown:
            lines.append(f"unknown: {self.unknown:,}")
        if self.errors:
            lines.append(f"could not be read: {self.errors:,} (see the column error)")
            lines += [f"  {images:,} × {reason}" for reason, images in list(self.reasons.items())[:REASONS_SHOWN]]
        if self.mean_confidence is not None:
            lines.append(f"mean confidence: {self.mean_confidence:.2f}")
        return lines


@dataclass(frozen=True)
class CsvRun:
    """Labels images and writes one row for each to a csv file, in a run that can be interrupted and continued.

    Rows go to `out`.partial batch by batch, and it is renamed at the end. A run that was interrupted is continued where
    its last whole batch ended, so that the same images share a batch and the result is the same to the last digit;
    or with `restart`, what it left behind is thrown away. With `together` the images help to find the classes (see
    `FewShotClassifier.predictions`).
    """

    classifier: FewShotClassifier
    queries: Domain
    out: Path
    reject_below: float | None = None
    restart: bool = False
    together: bool = False

    @property
    def partial(self) -> Path:
        """The file that collects the rows until all are there."""
        return self.out.with_name(f"{self.out.name}.partial")

    def label(self) -> int:
        """Label every image, and say how many rows of an interrupted run were kept.

        Raises:
            InputError: If the partial file is of another model, other images or other settings, or `out` cannot be
                written.
        """
        partial, queries, done = self.partial, self.queries, 0
        with only_writer(self.out.parent, self.out.name):
            self.check()
            if partial.exists() and not self.restart:
                done = self._keep_whole_batches()
            else:
                partial.unlink(missing_ok=True)
                write_json(self._begun_with, self._identity)
                with new_file(partial) as stream:
                    csv.writer(stream, lineterminator="\n").writerow(COLUMNS)
            if done < len(queries):
                rest = queries.select(range(done, len(queries))) if done else queries
                seen_with = queries if self.together else None
                answers = self.classifier.predictions(rest, reject_below=self.reject_below, seen_with=seen_with)
                _append(partial, answers)
            partial.replace(self.out)
            self._begun_with.unlink(missing_ok=True)
        return done

    def check(self) -> None:
        """Raise `InputError` where `label` cannot begin or go on, before anything is labeled."""
        check_rejection(self.reject_below, self.classifier.classes_)
        check_out(self.out)
        if self.restart or not self.partial.exists():
            return
        try:
            begun_with = json.loads(self._begun_with.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            begun_with = None
        identity = self._identity
        if begun_with == identity:
            return
        phrases = {
            "model": "another model",
            "queries": "other or changed query images",
            "reject_below": "another --reject-below",
            "batch_size": "another --batch-size",
            "together": "--together for one of the two only",
        }
        begun_with = begun_with if isinstance(begun_with, dict) else {}
        differing = [text for key, text in phrases.items() if begun_with.get(key, ...) != identity[key]]
        raise InputError(
            f"{self.partial} was left by a run with {' and '.join(differing)}, so it cannot be continued: give "
            "--restart to throw it away, or another --out"
        )

    @property
    def _begun_with(self) -> Path:
        return self.out.with_name(f"{self.out.name}.partial.json")

    @property
    def _identity(self) -> dict[str, object]:
        """What one run must share with another to continue it; the batch size, because sums depend on it a little."""
        return {
            "model": self.classifier.fingerprint,
            "queries": self.queries.fingerprint,
            "reject_below": self.reject_below,
            "batch_size": self.classifier.batch_size,
            "together": self.together,
        }

    def _keep_whole_batches(self) -> int:
        """Cut the file after its last whole batch; a line torn by the interruption goes with the rest of its batch."""
        good = sum(1 for _ in self._good_rows())
        if not _ends_in_newline(self.partial):
            good = max(0, good - 1)
        size = self.classifier.batch_size
        kept = good if good == len(self.queries) else good // size * size
        with new_file(self.partial, "wb") as raw:
            stream = io.TextIOWrapper(raw, encoding="utf-8", errors="surrogateescape", newline="")
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(map(safe_row, islice(self._good_rows(), kept)))
            stream.detach()
        return kept

    def _good_rows(self) -> Iterator[CsvRow]:
        """Rows from the top for as long as they are complete and those of the queries in their order."""
        for index, row in enumerate(read_rows(self.partial)):
            whole = index < len(self.queries) and len(row) == len(COLUMNS)
            if not whole or row[0] != self.queries.image_name(index):
                return
            yield row


def check_out(out: Path) -> None:
    """Raise `InputError` where no csv file can be written."""
    if out.is_dir():
        raise InputError(f"{out} is a folder: give the name of a csv file, for example {out / 'predictions.csv'}")
    check_writable(out)


def read_rows(file: Path) -> Iterator[CsvRow]:
    """Read the rows below the header one at a time, as they were before they were made safe for spreadsheets."""
    with file.open(encoding="utf-8", errors="surrogateescape", newline="") as stream:
        reader = csv.reader(stream)
        next(reader, None)
        yield from ([text_of_csv_cell(cell) for cell in row] for row in reader)


def summarize(file: Path) -> CsvSummary:
    """Count what a finished file holds; memory does not grow with the file."""
    labels: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    unknown = read = 0
    total = 0.0
    for _, label, confidence, _, _, known, error in read_rows(file):
        if error:
            reasons[error] += 1
            continue
        read, total = read + 1, total + float(confidence)
        if known == "yes":
            labels[label] += 1
        else:
            unknown += 1
    mean = total / read if read else None
    return CsvSummary(dict(labels.most_common()), unknown, reasons.total(), mean, dict(reasons.most_common()))


def labeled_files(out: Path, query: Path) -> Iterator[tuple[Path, str]]:
    """List (file, label) of all images that got a label, the paths as they can be opened from here."""
    root = query.parent if query.suffix.lower() in TABLES and query.is_file() else Path()
    for path, label, *_, error in read_rows(out):
        if not error:
            yield root / path, label


def _append(partial: Path, batches: Iterable[Sequence[Prediction]]) -> None:
    with writing(partial), partial.open("a", encoding="utf-8", errors="surrogateescape", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        for batch in batches:
            writer.writerows(map(safe_row, map(csv_row, batch)))
            stream.flush()
        os.fsync(stream.fileno())


def csv_row(prediction: Prediction) -> CsvRow:
    """The cells of a prediction, in the order of `COLUMNS`."""
    confidences = (prediction.confidence, prediction.runner_up_confidence)
    sure, less_sure = ("" if value is None else f"{value:.4f}" for value in confidences)
    known = {True: "yes", False: "no", None: ""}[prediction.known]
    error = " ".join(prediction.error.split())  # one line each, so that a torn line can be told from a whole one
    return [prediction.name, prediction.label, sure, prediction.runner_up, less_sure, known, error]


def safe_row(row: CsvRow) -> CsvRow:
    """The same cells as text that no spreadsheet takes for a formula."""
    return [csv_cell(text) for text in row]


def _ends_in_newline(file: Path) -> bool:
    with file.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - 1))
        return stream.read() == b"\n"
