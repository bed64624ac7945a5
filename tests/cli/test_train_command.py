"""`cplsr train` with recipes, and what is said of wrong ones."""

import json
import os
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cplsr.cli import main
from cplsr.cli.options import read_recipe
from cplsr.cli.train import Train, parse_options
from cplsr.errors import InputError

RECIPES = [
    path
    for path in sorted((Path(__file__).parents[2] / "src" / "cplsr" / "recipes").glob("*.toml"))
    if "[rows." not in path.read_text(encoding="utf-8")  # those are for `cplsr ablate`
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random = np.random.Generator(np.random.Philox(key=1))
    for number in range(4):
        (tmp_path / "base" / f"c{number}").mkdir(parents=True)
        for image in range(4):
            pixels = random.integers(0, 255, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "base" / f"c{number}" / f"{image}.png")
    return tmp_path / "base"


def test_the_help_suggests_a_recipe_where_it_gained_and_says_where_none_did(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "below the backbone's own image size only: best_112.toml, which comes with the package" in text
    assert "best_224.toml gained -0.13 points at one shot and +0.03 at five, train nothing there" in text
    assert {"best_112", "best_224"} <= {path.stem for path in RECIPES}


def test_a_recipe_trains_and_the_command_line_beats_it(
    checkpoint_file: Path, folder: Path, tmp_path: Path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    recipe = tmp_path / "small.toml"
    recipe.write_text(
        f'backbone = "{checkpoint_file}"\nheads = 2\nbase = "{folder}"\nway = 2\nshot = 1\nquery = 1\nepisodes = 9\n'
        'validation-episodes = 4\ncandidates = 4\npseudo_episodes = 2\nlr = 1\nadapter_options = ["sharing=shared"]\n'
    )
    words = ["--lr", "0.001", "--episodes", "2", "--no-sst", "--workers", "0", "--out", str(tmp_path / "run")]
    assert main(["train", str(recipe), *words]) == 0
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (record["settings"]["lr"], record["settings"]["episodes"], record["settings"]["sst"]) == (0.001, 2, False)
    assert record["settings"]["way"] == 2
    assert record["adapter"]["options"]["sharing"] == "shared"
    assert record["command"] == shlex.join(["cplsr", "train", "small.toml", *words[:-1], "run"])
    shown = capsys.readouterr()
    assert "validation accuracy" in shown.out
    assert "cplsr: note: 2 of 2 classes have no more embeddings" in shown.err
    assert main(["train", str(recipe), *words, "--resume"]) == 0
    assert "finished already" in capsys.readouterr().out
    assert main(["train", str(recipe), *words]) == 2
    assert "--resume" in capsys.readouterr().err


def test_data_that_changed_since_is_told_in_a_sentence(checkpoint_file: Path, folder: Path, tmp_path: Path, capsys):
    words = [
        *(
            "train",
            "--backbone",
            str(checkpoint_file),
            "--heads",
            "2",
            "--base",
            str(folder),
            "--way",
            "2",
            "--shot",
            "1",
        ),
        *("--query", "1", "--episodes", "1", "--validation-episodes", "4", "--no-sst", "--no-pe", "--workers", "0"),
        *("--out", str(tmp_path / "run"), "--resume"),
    ]
    assert main(words) == 0
    image = folder / "c0" / "0.png"
    os.utime(image, (1, 1))
    assert main(words) == 0  # another time is no other content
    image.write_bytes(image.read_bytes() + b"x")
    assert main(words) == 2
    assert "base: as many files, but of other content" in capsys.readouterr().err
    (folder / "c0" / "new.png").write_bytes(image.read_bytes())
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "base fingerprint: " in error
    assert "base images: 8, now 9" in error


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_valid_and_begins_with_its_command(recipe: Path):
    Train(**read_recipe(recipe, Train))
    assert recipe.read_text().splitlines()[0].startswith(f"# cplsr train recipes/{recipe.name} ")


def test_recipes_of_the_package_are_found_from_anywhere(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_recipe(Path("recipes/mini_5shot.toml"), Train)["shot"] == 5
    (tmp_path / "mini_5shot.toml").write_text("shot = 3")
    assert read_recipe(Path("mini_5shot.toml"), Train)["shot"] == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("episods = 3", "did you mean 'episodes'"),
        ("zzzzzz = 3", "unknown setting 'zzzzzz': give one of base, val, out"),
        ('lr = "fast"', "lr is 'fast': a number was wanted, not text"),
        ("sst = 1", "sst is 1: true or false was wanted"),
        ("episodes = true", "episodes is True: a whole number was wanted"),
        ('select = "first"', "'best' or 'last'"),
        ("mean = 0.5", "mean is 0.5: a list or nothing was wanted"),
        ("way = ", "not valid TOML"),
    ],
)
def test_a_wrong_recipe_is_a_sentence(tmp_path: Path, capsys, text, words):
    (tmp_path / "r.toml").write_text(text)
    assert main(["train", str(tmp_path / "r.toml")]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.toml"], "cannot be read"),
        ([], "--base"),
        (["--base", "digits"], "--out"),
        (["--base", "nowhere", "--out", "x"], "nowhere"),
        (["--base", "digits", "--out", "x", "--way", "1"], "way is 1"),
        (["--base", "digits", "--out", "x", "--adapter-options", "sharing"], "name=value"),
    ],
)
def test_wrong_options_are_a_sentence(checkpoint_file, tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *arguments, "--backbone", str(checkpoint_file), "--heads", "2"]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_adapter_options_are_read_as_what_they_look_like():
    texts = ("sharing=shared", "layers=[1,2]", "length=4", "residual=true", "alpha=2.5")
    expected = {"sharing": "shared", "layers": [1, 2], "length": 4, "residual": True, "alpha": 2.5}
    assert parse_options(texts, "adapter", "sharing=shared") == expected
    with pytest.raises(InputError):
        parse_options(("=3",), "adapter", "sharing=shared")
