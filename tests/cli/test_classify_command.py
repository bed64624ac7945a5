"""`cplsr classify`, as it is called."""

import csv
import dataclasses
import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from oracles.fresh_process import heavy_after
from oracles.patience import not_for_ever
from PIL import Image

from cplsr.adapters.attach import attach
from cplsr.adapters.store import save_adapter
from cplsr.backbones.load import load_backbone
from cplsr.classifier import embed_pictures
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.cli import main as cplsr
from cplsr.cli.check import main as check
from cplsr.cli.classify import Classify, main
from cplsr.environment import cache_folder
from cplsr.errors import InputError

COLORS = {"blue": (40, 60, 200), "green": (40, 190, 60), "red": (200, 50, 40)}


@pytest.fixture
def folders(tmp_path):
    generator = np.random.default_rng(0)
    for number in range(7):
        for name, color in COLORS.items():
            pixels = (np.asarray(color) + generator.integers(-30, 31, (20, 24, 3))).clip(0, 255).astype(np.uint8)
            place = tmp_path / ("support/" + name if number < 3 else "query/day " + str(number % 2))
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(place / (f"{number}.png" if number < 3 else f"{name}.{number // 5}.png"))
    (tmp_path / "query" / "bad.jpg").write_bytes(b"no image")
    return tmp_path


@pytest.fixture
def common(checkpoint_file):
    return ["--backbone", str(checkpoint_file), "--heads", "2", "--device", "cpu", "--workers", "0"]


def rows_of(file):
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_tuned_on_the_examples_and_saved_so(folders, common, capsys):
    out, model = folders / "p.csv", folders / "model"
    asked = [*common, "--query", str(folders / "query"), "--out", str(out)]
    words = [*asked, "--support", str(folders / "support"), "--tune-on-support", "--tune-options", "steps=2", "lr=0.03"]
    assert main([*words, "--save", str(model)]) == 0
    assert "Tuning on your examples came after that" in capsys.readouterr().out
    first = rows_of(out)
    saved = FewShotClassifier.load(model, workers=0)
    assert (saved.tuned_["steps"], saved.adapter_kind_) == (2, "tokens")
    out.unlink()
    assert main([*asked[:2], "--device", "cpu", "--workers", "0", *asked[-4:], "--model", str(model)]) == 0
    assert rows_of(out) == first
    with pytest.raises(InputError, match="--tune-on-support does not go with --model"):
        main([*asked[-4:], "--model", str(model), "--tune-on-support"])
    with pytest.raises(InputError, match="nothing is tuned: give --tune-on-support as well"):
        main([*asked, "--support", str(folders / "support"), "--tune-options", "steps=2"])


def test_from_examples_to_a_file_a_model_and_sorted_copies(folders, common, capsys):
    out, model, sorted_to = folders / "new" / "p.csv", folders / "model", folders / "sorted"

    code = main(
        [*common, "--support", str(folders / "support"), "--query", str(folders / "query"), "--out", str(out),
         "--save", str(model), "--copy-to", str(sorted_to)]
    )  # fmt: skip

    printed = capsys.readouterr().out
    rows = rows_of(out)
    assert code == 0
    assert len(rows) == 13
    for row in rows:
        if row["path"].endswith("bad.jpg"):
            assert row["error"] == "not an image of a known format"
            assert row["label"] == ""
        else:
            assert row["label"] == Path(row["path"]).name.partition(".")[0]
            assert row["known"] == "yes"
    copies = sorted(str(file.relative_to(sorted_to)) for file in sorted_to.rglob("*.png"))
    assert len(copies) == 12
    assert all(copy.partition("/")[0] == Path(copy).name.partition(".")[0] for copy in copies)
    for words in ("13 images", "could not be read: 1", "mean confidence", "Of 100 new pictures", str(model)):
        assert words in printed

    again = folders / "again.csv"
    assert main(["--model", str(model), "--query", str(folders / "query"), "--out", str(again), "--workers", "0"]) == 0
    assert again.read_bytes() == out.read_bytes()
    assert "Of 100 new pictures" in capsys.readouterr().out


def test_unknown_ones_have_a_folder_of_their_own(folders, common, capsys):
    main(
        [*common, "--support", str(folders / "support"), "--query", str(folders / "query"), "--out",
         str(folders / "p.csv"), "--reject-below", "1.0", "--copy-to", str(folders / "sorted")]
    )  # fmt: skip

    assert {row["label"] for row in rows_of(folders / "p.csv")} == {"unknown", ""}
    assert [folder.name for folder in (folders / "sorted").iterdir()] == ["unknown"]
    assert len(list((folders / "sorted" / "unknown").iterdir())) == 12
    assert "unknown: 12" in capsys.readouterr().out


def test_an_adapter_and_a_table_of_paths(folders, common, checkpoint_file):
    backbone = load_backbone(checkpoint_file, 48, heads=2)
    attach(backbone, "coalescent", init="near_identity")
    save_adapter(backbone, folders / "run" / "adapter")
    (folders / "list.csv").write_text("path\nquery/bad.jpg\nquery/day 1/red.0.png\nsupport/blue/0.png\n")

    main(
        [*common, "--support", str(folders / "support"), "--query", str(folders / "list.csv"), "--out",
         str(folders / "p.csv"), "--adapter", str(folders / "run"), "--save", str(folders / "model"), "--copy-to",
         str(folders / "sorted")]
    )  # fmt: skip

    rows = rows_of(folders / "p.csv")
    assert [row["path"] for row in rows] == ["query/bad.jpg", "query/day 1/red.0.png", "support/blue/0.png"]
    assert [row["label"] for row in rows] == ["", "red", "blue"]
    assert sorted(file.name for file in (folders / "sorted").rglob("*.png")) == ["0.png", "red.0.png"]
    loaded = FewShotClassifier.load(folders / "model")
    assert (loaded.adapter_kind_, loaded.backbone_.image_size) == ("coalescent", 48)


def test_an_interrupted_run_is_continued_by_the_same_command(folders, common, monkeypatch, capsys):
    words = ["classify", *common, "--support", str(folders / "support"), "--query", str(folders / "query"),
             "--batch-size", "4"]  # fmt: skip
    assert cplsr([*words, "--out", str(folders / "whole.csv")]) == 0
    whole = FewShotClassifier.predictions

    def broken(self, X, **options):
        batches = whole(self, X, **options)
        yield next(batches)
        yield next(batches)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FewShotClassifier, "predictions", broken)
        assert cplsr([*words, "--out", str(folders / "p.csv")]) == 130
    assert not (folders / "p.csv").exists()
    assert cplsr([*words, "--out", str(folders / "p.csv"), "--reject-below", "0.5", "--save", str(folders / "m")]) == 2
    assert "another --reject-below" in capsys.readouterr().err
    assert not (folders / "m").exists()

    assert cplsr([*words, "--out", str(folders / "p.csv")]) == 0

    assert "8 of 13 images were labeled already" in capsys.readouterr().out
    assert (folders / "p.csv").read_bytes() == (folders / "whole.csv").read_bytes()


def test_a_second_run_embeds_nothing_and_answers_alike(folders, common, monkeypatch):
    words = ["classify", *common, "--support", str(folders / "support"), "--query", str(folders / "query"),
             "--batch-size", "4"]  # fmt: skip
    embedded = []
    embed = embed_pictures.embed_pixels
    monkeypatch.setattr(embed_pictures, "embed_pixels", lambda *given: embedded.append(len(given[1])) or embed(*given))

    assert cplsr([*words, "--out", str(folders / "a.csv")]) == 0
    assert (sum(embedded), len(embedded)) == (9 + 12, 3 + 4)
    embedded.clear()
    assert cplsr([*words, "--out", str(folders / "b.csv")]) == 0
    assert embedded == []
    assert (folders / "a.csv").read_bytes() == (folders / "b.csv").read_bytes()
    assert cplsr([*words, "--out", str(folders / "c.csv"), "--reject-below", "0.9"]) == 0
    assert embedded == []

    for shard in cache_folder().glob("embeddings/*/*.safetensors"):  # damaged behind what tells the images apart
        content = bytearray(shard.read_bytes())
        content[-3] ^= 1
        shard.write_bytes(content)
    with pytest.warns(UserWarning, match="are damaged and are made again"):
        assert main([*words[1:], "--out", str(folders / "d.csv")]) == 0
    assert sum(embedded) == 9 + 12
    assert (folders / "a.csv").read_bytes() == (folders / "d.csv").read_bytes()
    embedded.clear()
    assert cplsr([*words, "--out", str(folders / "e.csv"), "--no-cache"]) == 0
    assert sum(embedded) == 9 + 12


def test_a_file_of_answers_is_overwritten_only_on_request(folders, common, monkeypatch, capsys):
    out = folders / "p.csv"
    out.write_text("corrected by hand")
    words = ["classify", *common, "--support", str(folders / "support"), "--query", str(folders / "query"), "--out",
             str(out)]  # fmt: skip

    assert cplsr(words) == 2
    assert "exists already and stays as it is: give --force" in capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", _Terminal("n\n"))
    assert cplsr(words) == 2
    assert "Overwrite it" in capsys.readouterr().err
    assert out.read_text() == "corrected by hand"
    monkeypatch.setattr("sys.stdin", _Terminal("y\n"))
    assert cplsr(words) == 0
    assert len(rows_of(out)) == 13
    monkeypatch.setattr("sys.stdin", _Terminal(""))
    assert cplsr([*words, "--force"]) == 0


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_files_that_are_passed_over_are_counted_and_named(folders, common, capsys):
    for name in ("day 0/clip.MOV", "day 0/b.mov", "c.mov", "d.mov", "notes"):
        (folders / "query" / name).write_bytes(b"x")
    (folders / "support" / "red" / "raw.dng").write_bytes(b"x")
    listed = folders / "skipped.csv"

    assert cplsr(["classify", *common, "--support", str(folders / "support"), "--query", str(folders / "query"),
                  "--out", str(folders / "p.csv"), "--skipped-to", str(listed)]) == 0  # fmt: skip

    printed = capsys.readouterr()
    assert "could not be read: 1 (see the column error)\n  1 × not an image of a known format\n" in printed.out
    said = printed.err
    assert f"5 files of {folders / 'query'} passed over: 4 .mov (not the name of an image file: " in said
    assert "1 without ending (not the name of an image file: " in said
    assert "passed over: 1 .dng (not the name of an image file: red/raw.dng)" in said
    paths = [row["path"] for row in rows_of(listed)]
    assert paths[0] == "red/raw.dng"
    assert {Path(path).name for path in paths[1:]} == {"clip.MOV", "b.mov", "c.mov", "d.mov", "notes"}


def test_mislabeled_examples_are_a_table(folders, common, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    long = folders / "support" / "red" / f"{'a_blue_one_' * 8}.png"
    (folders / "support" / "blue" / "2.png").rename(long)

    assert cplsr(["classify", *common, "--support", str(folders / "support"), "--query", str(folders / "query"),
                  "--out", str(folders / "p.csv"), "--head", "prototypes", "--pooling", "cls"]) == 0  # fmt: skip

    out = capsys.readouterr().out
    assert "examples that may be mislabeled" in out
    assert "looks like" in out
    assert "…" not in out  # folded, not cut
    column = "".join(line.split("│")[1].strip() for line in out.splitlines() if line.startswith("│"))
    assert f"red/{long.name}" in column


def test_what_matters_comes_first_in_the_help():
    names = [field.name for field in dataclasses.fields(Classify)]
    assert names[:3] == ["support", "query", "out"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--support", "support"], "nothing to label"),
        (["--query", "query"], "either --support"),
        (["--query", "query", "--support", "support", "--model", "model"], "either --support"),
        (["--query", "query", "--model", "support"], "no saved classifier"),
        (["--query", "query", "--model", "model", "--adapter", "frozen"], "--adapter does not go"),
        (["--query", "query", "--model", "model", "--image-size", "32"], "--image-size does not go"),
        (["--query", "gone", "--support", "support"], "gone does not exist"),
        (["--query", "query", "--support", "gone"], "gone does not exist"),
        (["--query", "query", "--support", "one"], "one class, 'red'"),
        (
            ["--query", "query", "--support", "support", "--reject-below", "50"],
            "reject_below is 50.0: .* at most 1",
        ),
        (["--query", "query", "--support", "support", "--copy-to", "query/sorted"], "in the query folder"),
        (["--query", "query", "--support", "support", "--save", "query"], "not a saved classifier"),
        (["--query", "query", "--support", "support", "--out", "query"], "is a folder"),
        (
            ["--query", "query", "--support", "support", "--batch-size", "0"],
            "batch_size is 0: .* at least 1",
        ),
    ],
)
def test_bad_requests_are_one_sentence_and_leave_nothing(folders, common, monkeypatch, capsys, words, message):
    (folders / "one" / "red").mkdir(parents=True)
    Image.new("RGB", (5, 5)).save(folders / "one" / "red" / "0.png")
    monkeypatch.chdir(folders)
    before = sorted(str(path) for path in folders.rglob("*"))
    if "--model" in words:
        common = [word for word in common if word not in ("--heads", "2")]

    with pytest.raises(InputError, match=message):
        main([*common, *words])

    assert sorted(str(path) for path in folders.rglob("*") if "cplsr-cache" not in str(path)) == before
    assert cplsr(["classify", *common, *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("cplsr: ")
    assert "Traceback" not in error


def test_without_a_backbone_the_embedded_one_is_used_and_named(folders, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))

    code = cplsr(
        ["classify", "--support", str(folders / "support"), "--query", str(folders / "query" / "day 1" / "red.0.png"),
         "--out", str(folders / "p.csv"), "--workers", "0", "--device", "cpu"]
    )  # fmt: skip

    assert code == 0
    assert "note: the small embedded backbone is used" in capsys.readouterr().err
    assert [row["label"] for row in rows_of(folders / "p.csv")] == ["red"]


def test_importing_the_commands_loads_nothing_heavy():
    assert heavy_after("import cplsr.cli.classify, cplsr.cli.check") == set()


@pytest.mark.parametrize(
    "words",
    [
        ["--adapter", "x"],
        ["--image-size", "64"],
        ["--pooling", "mean"],
        ["--layers", "1"],
        ["--heads", "3"],
        ["--mean", "0", "0", "0"],
    ],
)
def test_what_a_saved_model_has_settled_is_refused(tmp_path, capsys, words):
    (tmp_path / "q").mkdir()
    command = ["classify", "--model", str(tmp_path), "--query", str(tmp_path / "q"), "--out", str(tmp_path / "p.csv")]
    assert cplsr([*command, *words]) == 2
    assert f"{words[0]} does not go with --model" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="pipes as on posix")
def test_pipes_bombs_and_scripts_with_the_names_of_images_are_rows_with_a_reason(folders, common):
    os.mkfifo(folders / "support" / "red" / "pipe.jpg")
    os.mkfifo(folders / "query" / "pipe.jpg")
    (folders / "query" / "script.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")
    out = folders / "p.csv"
    with not_for_ever():
        main([*common, "--support", str(folders / "support"), "--query", str(folders / "query"), "--out", str(out)])
        check([str(folders / "support"), *common])
    errors = {Path(row["path"]).name: row["error"] for row in rows_of(out) if row["error"]}
    assert errors == {
        "bad.jpg": "not an image of a known format",
        "pipe.jpg": "not a regular file",
        "script.jpg": "not an image of a known format",
    }
