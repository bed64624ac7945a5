"""`cplsr embed`, and the vectors it makes in place of images on the command line."""

import csv

import pytest
from oracles.color_folders import color_folders

from cplsr.cli import main
from cplsr.data.vectors import open_vectors


@pytest.fixture
def images(tmp_path):
    return color_folders(tmp_path / "data", ("colors",), prefix="class ", colors=(60, 190), key=3) / "colors"


@pytest.fixture
def model(checkpoint_file):
    return ["--backbone", str(checkpoint_file), "--heads", "2", "--mean", *["0.5"] * 3, "--std", *["0.5"] * 3]


@pytest.fixture
def embed(model):
    return lambda source, out, *more: main(["embed", str(source), "--out", str(out), "--processes", "1", *model, *more])


def rows_of(file):
    with file.open(newline="") as stream:
        return [(row["path"].rpartition("colors/")[2], row["label"]) for row in csv.DictReader(stream)]


def test_classify_answers_on_vectors_as_on_the_images(images, model, embed, tmp_path, capsys):
    assert embed(images, tmp_path / "vectors", "--shard-images", "20") == 0
    assert "36 vectors of 256 numbers in 2 files" in capsys.readouterr().out
    assert embed(images, tmp_path / "vectors", "--shard-images", "20") == 0
    assert "36 images were embedded already" in capsys.readouterr().out
    answers = []
    for query in (images, tmp_path / "vectors"):
        out = tmp_path / f"{query.name}.csv"
        assert main(["classify", "--support", str(images), "--query", str(query), "--out", str(out), *model]) == 0
        answers.append(rows_of(out))
    assert answers[0] == answers[1]
    again = [
        "classify",
        "--support",
        str(images),
        "--query",
        str(tmp_path / "vectors"),
        "--out",
        str(tmp_path / "x.csv"),
    ]
    assert main([*again, "--copy-to", str(tmp_path / "copies"), *model]) == 2
    assert "holds only vectors" in capsys.readouterr().err


def test_evaluate_takes_vectors_of_its_own_model_and_refuses_others(images, model, embed, tmp_path, capsys):
    assert embed(images, tmp_path / "vectors", "--pooling", "cls", "--adapter", "frozen") == 0
    episodes = ["--way", "2", "--shots", "1", "--query", "2", "--episodes", "5"]
    assert main(["evaluate", "--target", str(tmp_path / "vectors"), *episodes, *model]) == 0
    capsys.readouterr()
    assert main(["evaluate", "--target", str(tmp_path / "vectors"), *episodes, *model, "--pooling", "mean"]) == 2
    assert "pooling cls where mean is wanted" in capsys.readouterr().err


def test_unlabeled_images_at_any_depth(images, embed, tmp_path):
    (images / "class 0" / "deeper").mkdir()
    (images / "class 0" / "0.png").rename(images / "class 0" / "deeper" / "0.png")
    assert embed(images, tmp_path / "vectors", "--unlabeled") == 0
    domain = open_vectors(tmp_path / "vectors")
    assert (len(domain), domain.classes) == (36, ("",))
    assert domain.image_name(5) == str(images / "class 0" / "deeper" / "0.png")


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--out", "x"], "nothing to embed"), (["somewhere"], "give --out DIR"), (["no", "--out", "x"], "no")],
)
def test_what_is_missing_is_a_sentence(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["embed", *words]) == 2
    assert said in capsys.readouterr().err


def test_what_is_passed_over_is_counted_once_and_named_by_kind(images, embed, tmp_path, capsys):
    for name in ("a.txt", "b.txt"):
        (images / "class 0" / name).write_text("no image")
    assert embed(images, tmp_path / "vectors", "--shard-images", "5", "--unlabeled") == 0
    said = capsys.readouterr().out
    assert "in 8 files" in said
    assert "2 files of colors passed over: 2 .txt (not the name of an image file: " in said
    assert embed(images, tmp_path / "few", "--shard-images", "50") == 0
    assert "in 1 file, in" in capsys.readouterr().out


def test_refused_vectors_come_with_the_options_that_make_fitting_ones(images, tmp_path, capsys):
    embedded = ["--backbone", "embedded"]
    out = str(tmp_path / "vectors")
    assert main(["embed", str(images), "--out", out, "--processes", "1", *embedded]) == 0
    episodes = ["--way", "2", "--shots", "1", "--query", "2", "--episodes", "5"]
    assert main(["evaluate", "--target", out, *episodes, *embedded]) == 2
    said = capsys.readouterr().err
    assert "adapter the one packaged with the embedded backbone (" in said
    assert "make fitting ones with cplsr embed … --backbone embedded --adapter frozen --pooling cls, or" in said
    assert "pooled_layers" not in said
    flags = ["--adapter", "frozen", "--pooling", "cls"]
    fitting = str(tmp_path / "fitting")
    assert main(["embed", str(images), "--out", fitting, "--processes", "1", *embedded, *flags]) == 0
    assert main(["evaluate", "--target", fitting, *episodes, *embedded]) == 0
