"""`cplsr train` says what it will do before it does it."""

import re

import numpy as np
import pytest
from PIL import Image

from cplsr.adapters.store import push_adapter
from cplsr.cli import main
from cplsr.errors import InputError
from cplsr.training.forecast import duration, sentences


@pytest.fixture
def words(tmp_path, checkpoint_file):
    random = np.random.default_rng(0)
    for number in range(8):
        (tmp_path / "base" / f"c{number}").mkdir(parents=True)
        for image in range(6):
            pixels = random.integers(0, 255, (20, 20, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "base" / f"c{number}" / f"{image}.png")
    return ["train", "--base", str(tmp_path / "base"), "--backbone", str(checkpoint_file), "--heads", "2", "--way", "2",
            "--shot", "1", "--query", "1", "--episodes", "2", "--statistics-images", "2", "--workers", "0",
            "--validation-episodes", "4", "--validate-every", "1", "--candidates", "10"]  # fmt: skip


def test_a_dry_run_counts_and_writes_nothing(words, tmp_path, capsys):
    assert main([*words, "--dry-run", "--out", str(tmp_path / "run")]) == 0

    said = capsys.readouterr().out
    decoded = int(re.search(r"images to decode: (\d+) ", said)[1])
    assert 12 + 12 <= decoded <= 12 + 12 + 8  # validation, statistics, and what the episodes take beside these
    assert "embeddings for the statistics: 48 (about " in said  # 6 classes of 2 images, 4 turns
    assert "base episodes: 2, of 32 images in all (about " in said
    assert "embeddings for the validations: 144 (about " in said  # 12 images, 4 turns, 3 times
    assert not (tmp_path / "run").exists()


def test_a_run_says_the_same_first(words, tmp_path, capfd):
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    said = capfd.readouterr().err
    assert 0 < said.index("images to decode") < said.index("by one timed step")


def test_a_recipe_for_another_backbone_or_size_says_so(words, tmp_path, capsys):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('backbone = "facebook/dino-vits16"\nimage_size = 64\n')

    assert main(["train", str(recipe), *words[1:], "--image-size", "32", "--dry-run"]) == 0

    said = capsys.readouterr().err
    assert "the recipe is for --backbone facebook/dino-vits16, the command says " in said
    assert "the recipe is for --image-size 64, the command says 32, which is used" in said


def test_times_are_as_coarse_as_they_are_certain():
    assert [duration(seconds) for seconds in (0.1, 99.0, 300.0, 7200.0)] == ["1 s", "99 s", "5 min", "2.0 h"]
    assert sentences(10, 0, 1, 10, 10, (1.0, 2.0, 3.0))[-1].startswith("about 60 s in all")


def test_a_run_that_mostly_prepares_is_told_how_to_be_shorter():
    assert "--statistics-images" in sentences(10, 100, 1, 10, 10, (1.0, 2.0, 3.0))[0]
    assert "--validate-every 0" in sentences(10, 10, 1, 10, 100, (1.0, 2.0, 3.0))[0]


def test_what_a_run_does_not_do_is_not_forecast():
    said = sentences(10, 0, 1, 10, 1, (1.0, 2.0, 3.0))
    assert len(said) == 4
    assert not any("statistics: " in line for line in said)


def test_pushing_a_backbone_says_what_is_wanted():
    with pytest.raises(
        InputError, match=r"given a object: it wants the folder .* push_adapter\('folder', 'user/name'\)"
    ):
        push_adapter(object())
    with pytest.raises(InputError, match="given no repository"):
        push_adapter("runs/mine")
