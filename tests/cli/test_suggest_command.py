"""`cplsr suggest`, as it is called."""

import csv

import numpy as np
import pytest
from PIL import Image

from cplsr.backbones.backbone import Backbone
from cplsr.cli.classify import main as classify
from cplsr.cli.suggest import main
from cplsr.errors import InputError

COLORS = {"blue": (40, 60, 200), "red": (200, 50, 40)}


@pytest.fixture
def common(tmp_path, checkpoint_file):
    generator = np.random.default_rng(0)
    for folder, images in (("support", 2), ("query", 4)):
        for name, color in COLORS.items():
            place = tmp_path / folder / name
            place.mkdir(parents=True)
            for number in range(images):
                pixels = (np.asarray(color) + generator.integers(-30, 31, (20, 24, 3))).clip(0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(place / f"{number}.png")
    return ["--backbone", str(checkpoint_file), "--heads", "2", "--device", "cpu", "--workers", "0"]


def test_names_images_with_guess_and_reason(tmp_path, common, capsys):
    out = tmp_path / "next.csv"
    asked = ["--support", str(tmp_path / "support"), "--query", str(tmp_path / "query"), "--count", "3"]

    assert main([*asked, "--out", str(out), *common]) == 0

    *lines, last = capsys.readouterr().out.splitlines()
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert last == f"written to {out}"
    assert len(lines) == len(rows) == len({row["path"] for row in rows}) == 3
    for line, row in zip(lines, rows, strict=True):
        assert line.startswith(f"{row['path']}: {row['label']} (")
        assert line.endswith(row["why"])
        assert row["label"] in row["path"]
        assert float(row["confidence"]) > float(row["runner_up_confidence"])


def test_a_saved_classifier_suggests_the_same_from_the_cache(tmp_path, common, capsys, monkeypatch):
    support, query, model = (str(tmp_path / name) for name in ("support", "query", "model"))
    out = str(tmp_path / "out.csv")
    assert classify(["--support", support, "--query", query, "--out", out, "--save", model, *common]) == 0
    capsys.readouterr()
    assert main(["--support", support, "--query", query, *common]) == 0
    from_examples = capsys.readouterr().out

    monkeypatch.setattr(Backbone, "forward", lambda *_, **__: pytest.fail("an image was embedded again"))
    assert main(["--model", model, "--query", query, "--device", "cpu"]) == 0

    assert capsys.readouterr().out == from_examples


def test_bad_requests_are_one_sentence(tmp_path, common):
    with pytest.raises(InputError, match=r"give either --support FOLDER .* or --model FOLDER"):
        main(common)
    with pytest.raises(InputError, match="there is nothing to choose from: give --query"):
        main(["--support", str(tmp_path / "support"), *common])
    with pytest.raises(InputError, match="--heads does not go with --model"):
        main(["--model", str(tmp_path / "support"), "--query", str(tmp_path), *common])
    empty = tmp_path / "broken"
    empty.mkdir()
    (empty / "a.png").touch()
    with pytest.raises(InputError, match=r"none of the 1 images of .* can be read"):
        main(["--support", str(tmp_path / "support"), "--query", str(empty), *common])


def test_what_is_passed_over_or_unreadable_is_told_and_no_file_is_overwritten(tmp_path, common, recwarn):
    (tmp_path / "query" / "notes.txt").write_text("no image")
    (tmp_path / "query" / "a.png").touch()
    out = tmp_path / "next.csv"
    out.write_text("mine")
    asked = ["--support", str(tmp_path / "support"), "--query", str(tmp_path / "query"), "--out", str(out), *common]
    with pytest.raises(InputError, match="exists already and stays as it is: give --force"):
        main(asked)
    assert out.read_text() == "mine"
    assert main([*asked, "--force"]) == 0
    assert out.read_text().startswith("path,")
    said = [str(warning.message) for warning in recwarn]
    assert any("1 file of" in each and "passed over: 1 .txt" in each for each in said)
    assert any("1 of 9 images cannot be read" in each and "a.png" in each for each in said)


def test_what_matters_stands_first_in_the_help():
    from dataclasses import fields

    from cplsr.cli.classify import Classify
    from cplsr.cli.evaluate import Evaluate
    from cplsr.cli.suggest import Suggest
    from cplsr.cli.train import Train

    for command, first in ((Suggest, "support"), (Classify, "support"), (Evaluate, "target"), (Train, "base")):
        names = [field.name for field in fields(command)]
        assert names[0] == first
        assert names.index("out") < names.index("backbone")
