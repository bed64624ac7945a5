"""`cplsr check`, as it is called."""

import numpy as np
import pytest
from PIL import Image

from cplsr.adapters.attach import attach
from cplsr.adapters.store import save_adapter
from cplsr.backbones.load import load_backbone
from cplsr.cli.check import main
from cplsr.errors import InputError

COLORS = {"blue": (40, 60, 200), "green": (40, 190, 60), "red [1]": (200, 50, 40)}


@pytest.fixture
def support(tmp_path):
    generator = np.random.default_rng(0)
    for name, color in COLORS.items():
        (tmp_path / "support" / name).mkdir(parents=True)
        for number in range(5):
            pixels = (np.asarray(color) + generator.integers(-30, 31, (20, 24, 3))).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "support" / name / f"{number}.png")
    return tmp_path / "support"


@pytest.fixture
def common(checkpoint_file, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    return ["--backbone", str(checkpoint_file), "--heads", "2", "--device", "cpu", "--workers", "0"]


def test_plain_words(support, common, checkpoint_file, tmp_path, capsys):
    (support / "red [1]" / "4.png").rename(support / "green" / "wrong.png")
    backbone = load_backbone(checkpoint_file, heads=2)
    attach(backbone, "coalescent", init="near_identity")
    save_adapter(backbone, tmp_path / "run" / "adapter")

    assert main([str(support), *common, "--adapter", str(tmp_path / "run")]) == 0

    printed = capsys.readouterr().out
    for words in (
        "ridge, adapter (in use)",
        "ridge, frozen",
        "prototypes of the last class token",
        "logistic regression",
        "nearest neighbors",
        "Of 100 new pictures like these, expect ",
        "Confusions to expect: green taken for red [1] (1).",
        "green/wrong.png (labeled green, looks like red [1])",
        "More pictures would help most for: green.",
        "Head: ridge (penalty ",
        "Frozen or adapter: no clear difference on these images (frozen recognizes 14, the adapter 14 of 15",
    ):
        assert words in printed
    assert "[bold]" not in printed


def test_one_image_per_class_says_what_is_missing(support, common, capsys):
    for file in support.rglob("[1-4].png"):
        file.unlink()

    assert main([str(support), *common]) == 0

    printed = capsys.readouterr().out
    assert "No class has two images" in printed
    assert "logistic" not in printed


def test_bad_requests_are_one_sentence(tmp_path, common):
    with pytest.raises(InputError, match="does not exist"):
        main([str(tmp_path / "gone"), *common])
