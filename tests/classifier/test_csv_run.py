"""Predictions in a file: interrupted anywhere and continued, it ends up the same."""

import csv
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cplsr.classifier import csv_run
from cplsr.classifier.csv_run import CsvRun, check_out, read_rows, summarize
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.classifier.sorted_copies import check_label_folders, copy_by_label
from cplsr.data.open import open_domain
from cplsr.data.query_files import open_queries
from cplsr.errors import InputError


@pytest.fixture
def classifier(backbone, support):
    return FewShotClassifier(backbone, workers=0, batch_size=3).fit(support)


def interrupt_after(classifier, monkeypatch, batches):
    """Let `predictions` break off after some batches, as Ctrl-C does."""
    whole = FewShotClassifier.predictions

    def broken(self, X, **options):
        for number, batch in enumerate(whole(self, X, **options)):
            if number == batches:
                raise KeyboardInterrupt
            yield batch

    monkeypatch.setattr(FewShotClassifier, "predictions", broken)


def test_images_seen_together_are_answered_the_same_after_an_interruption(
    backbone, support, query, tmp_path, monkeypatch
):
    paths = [support / name / "0.png" for name in ("red", "green", "blue")]
    single = FewShotClassifier(backbone, workers=0, batch_size=3).fit(paths, ["red", "green", "blue"])
    queries = open_queries(query)
    CsvRun(single, queries, tmp_path / "alone.csv").label()
    CsvRun(single, queries, tmp_path / "whole.csv", together=True).label()
    with monkeypatch.context() as patched:
        interrupt_after(single, patched, 2)
        with pytest.raises(KeyboardInterrupt):
            CsvRun(single, queries, tmp_path / "parts.csv", together=True).label()

    with pytest.raises(InputError, match="left by a run with --together for one of the two only"):
        CsvRun(single, queries, tmp_path / "parts.csv").label()
    assert CsvRun(single, queries, tmp_path / "parts.csv", together=True).label() == 6

    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert (tmp_path / "alone.csv").read_bytes() != (tmp_path / "whole.csv").read_bytes()


def test_rows(classifier, query, tmp_path):
    queries = open_queries(query)

    assert CsvRun(classifier, queries, tmp_path / "out" / "p.csv", reject_below=0.5).label() == 0

    with (tmp_path / "out" / "p.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["path", "label", "confidence", "runner_up", "runner_up_confidence", "known", "error"]
    answers = [answer for batch in classifier.predictions(queries, reject_below=0.5) for answer in batch]
    assert [row["path"] for row in rows] == [answer.name for answer in answers]
    for row, answer in zip(rows, answers, strict=True):
        assert (row["label"], row["error"]) == (answer.label, answer.error)
        assert row["known"] == ("" if answer.error else "yes" if answer.known else "no")
        assert row["confidence"] == ("" if answer.error else f"{answer.confidence:.4f}")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["p.csv"]
    summary = summarize(tmp_path / "out" / "p.csv")
    assert (summary.images, summary.errors) == (11, 2)
    assert summary.unknown == sum(answer.known is False for answer in answers)
    assert sum(summary.labels.values()) == 9 - summary.unknown
    read = [answer.confidence for answer in answers if not answer.error]
    assert summary.mean_confidence == pytest.approx(np.mean(read), abs=1e-4)


@pytest.mark.parametrize("batches", [0, 1, 2, 3])
@pytest.mark.parametrize("torn", [0, 1, 7, 60])
def test_an_interrupted_run_ends_up_the_same(classifier, query, tmp_path, monkeypatch, batches, torn):
    queries = open_queries(query)
    CsvRun(classifier, queries, tmp_path / "whole.csv").label()
    out = tmp_path / "p.csv"
    with monkeypatch.context() as patch:
        interrupt_after(classifier, patch, batches)
        with pytest.raises(KeyboardInterrupt):
            CsvRun(classifier, queries, out).label()
    assert not out.exists()
    left = CsvRun(classifier, queries, out).partial.read_bytes()
    CsvRun(classifier, queries, out).partial.write_bytes(left[: len(left) - torn])

    kept = CsvRun(classifier, queries, out).label()

    assert kept % 3 == 0
    assert kept <= 3 * batches
    if torn == 0:
        assert kept == 3 * batches
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert not list(tmp_path.glob("p.csv.*"))


def test_a_finished_partial_is_only_renamed(classifier, query, tmp_path, monkeypatch):
    queries = open_queries(query)
    out = tmp_path / "p.csv"
    CsvRun(classifier, queries, tmp_path / "whole.csv").label()
    append = csv_run._append

    def append_and_break(*arguments):
        append(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(csv_run, "_append", append_and_break)
        with pytest.raises(KeyboardInterrupt):
            CsvRun(classifier, queries, out).label()
    assert not out.exists()
    monkeypatch.setattr(FewShotClassifier, "predictions", None)  # calling it would be an error

    assert CsvRun(classifier, queries, out).label() == 11
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_second_run_into_one_file_gets_a_sentence(classifier, query, tmp_path, monkeypatch):
    queries, real, said = open_queries(query), csv_run._append, []

    def meddled(*arguments):
        with pytest.raises(InputError) as error:
            CsvRun(classifier, queries, tmp_path / "p.csv").label()
        said.append(str(error.value))
        real(*arguments)

    monkeypatch.setattr(csv_run, "_append", meddled)
    CsvRun(classifier, queries, tmp_path / "p.csv").label()
    assert "p.csv is being written by another process" in said[0]
    assert len(list(read_rows(tmp_path / "p.csv"))) == 11


def test_a_partial_of_something_else_is_refused(classifier, query, support, backbone, tmp_path, monkeypatch):
    out = tmp_path / "p.csv"
    with monkeypatch.context() as patch:
        interrupt_after(classifier, patch, 2)
        with pytest.raises(KeyboardInterrupt):
            CsvRun(classifier, open_queries(query), out).label()
    left = CsvRun(classifier, open_queries(query), out).partial.read_bytes()
    other = FewShotClassifier(backbone, workers=0, batch_size=3).fit(support).remove_class("red")
    with pytest.raises(InputError, match="run with another model, so"):
        CsvRun(other, open_queries(query), out).label()
    with pytest.raises(InputError, match="another --reject-below"):
        CsvRun(classifier, open_queries(query), out, reject_below=0.5).label()
    Image.new("RGB", (5, 5)).save(query / "new.png")
    with pytest.raises(InputError, match="other or changed query images"):
        CsvRun(classifier, open_queries(query), out).label()
    assert CsvRun(classifier, open_queries(query), out).partial.read_bytes() == left
    (query / "new.png").unlink()
    out.with_name("p.csv.partial.json").unlink()
    with pytest.raises(InputError, match="--restart"):
        CsvRun(classifier, open_queries(query), out).label()

    assert CsvRun(classifier, open_queries(query), out, restart=True).label() == 0
    assert len(list(read_rows(out))) == 11


def test_names_with_commas_newlines_and_odd_bytes(classifier, tmp_path, monkeypatch):
    folder = tmp_path / "odd"
    folder.mkdir()
    for name in ("a,b.png", 'say "no".png', "two\nlines.png", "\udcff.png", "what?.png", "z.png"):
        Image.new("RGB", (8, 8), "red").save(folder / name)
    queries = open_queries(folder)
    out = tmp_path / "p.csv"
    with monkeypatch.context() as patch:
        interrupt_after(classifier, patch, 1)
        with pytest.raises(KeyboardInterrupt):
            CsvRun(classifier, queries, out).label()

    assert CsvRun(classifier, queries, out).label() == 3
    assert sorted(row[0] for row in read_rows(out)) == sorted(str(path) for path in folder.iterdir())


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a folder"):
        check_out(tmp_path)
    with pytest.raises(InputError, match="cannot be written"):
        check_out(tmp_path / "file" / "p.csv")


def test_copies_never_overwrite_and_are_made_once(tmp_path):
    files = []
    for place, content in (("a", b"1"), ("b", b"2"), ("c", b"1")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "x.png").write_bytes(content)
        files.append((tmp_path / place / "x.png", "cat"))
    (tmp_path / "sorted" / "cat").mkdir(parents=True)
    (tmp_path / "sorted" / "cat" / "x.png").write_bytes(b"mine")

    assert copy_by_label(files, tmp_path / "sorted") == 2
    assert copy_by_label(files, tmp_path / "sorted") == 0

    found = {file.name: file.read_bytes() for file in (tmp_path / "sorted" / "cat").iterdir()}
    assert found == {"x.png": b"mine", "x-2.png": b"1", "x-3.png": b"2"}


def test_folders_for_copies_are_checked(tmp_path):
    (tmp_path / "query").mkdir()
    (tmp_path / "file").touch()
    check_label_folders(["cat", "a dog"], tmp_path / "sorted", tmp_path / "query")
    for name in ("a/b", "..", " ", "a\\b"):
        with pytest.raises(InputError, match="cannot be the name of a folder"):
            check_label_folders([name], tmp_path / "sorted", tmp_path / "query")
    with pytest.raises(InputError, match="in the query folder"):
        check_label_folders(["cat"], tmp_path / "query" / "sorted", tmp_path / "query")
    with pytest.raises(InputError, match="is a file"):
        check_label_folders(["cat"], tmp_path / "file", tmp_path / "query")


def test_names_that_begin_like_formulas_are_escaped_and_read_back(backbone, support, query, tmp_path, monkeypatch):
    classifier = FewShotClassifier(backbone, workers=0, batch_size=3)
    odd = ("=1+1", "@x", "'-y")
    classifier.fit(replace(open_domain(support), classes=odd))
    shutil.copytree(query, tmp_path / "q")
    Image.new("RGB", (8, 8), "red").save(tmp_path / "q" / "=cmd.png")
    monkeypatch.chdir(tmp_path / "q")
    queries = open_queries(Path())
    CsvRun(classifier, queries, tmp_path / "whole.csv").label()
    with (tmp_path / "whole.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert all(not row[name].startswith(tuple("=+-@")) for row in rows for name in ("path", "label", "runner_up"))
    assert {row["label"] for row in rows} - {""} == {f"'{name}" for name in odd}
    assert set(summarize(tmp_path / "whole.csv").labels) == set(odd)
    with monkeypatch.context() as patch:
        interrupt_after(classifier, patch, 2)
        with pytest.raises(KeyboardInterrupt):
            CsvRun(classifier, queries, tmp_path / "p.csv").label()
    assert CsvRun(classifier, queries, tmp_path / "p.csv").label() == 6
    assert (tmp_path / "p.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert [row[0] for row in read_rows(tmp_path / "p.csv")] == [queries.image_name(i) for i in range(len(queries))]
