"""`cplsr data list` and `cplsr data doctor`, as they are called."""

from pathlib import Path

import numpy as np
import pytest
from oracles.fresh_process import heavy_after
from PIL import Image

from cplsr.cli.data import main
from cplsr.data.target_layouts import EUROSAT_CLASSES


def fill(root: Path, classes: tuple[str, ...], images: int) -> Path:
    random = np.random.default_rng(0)
    for name in classes:
        (root / name).mkdir(parents=True)
        for number in range(images):
            Image.fromarray(random.integers(0, 256, (4, 4, 3), dtype=np.uint8)).save(root / name / f"{number}.png")
    return root


def flat(text: str) -> str:
    return " ".join(text.split())


def test_list_names_every_data_set_and_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    printed = flat(capsys.readouterr().out)
    for word in (
        "mini-imagenet:DIR",
        "64 / 16 / 20 classes",
        "tiered-imagenet:DIR",
        "chestx:DIR",
        "25,848",
        "isic:DIR",
    ):
        assert word in printed
    for word in ("eurosat:DIR", "github.com/phelber/EuroSAT", "cropdisease:DIR", "procedural:base", "digits"):
        assert word in printed


def test_doctor_says_usable_and_exits_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path, EUROSAT_CLASSES, 3)
    assert main(["doctor", str(tmp_path), "--as", "eurosat", "--shot", "1", "--query", "2"]) == 0
    printed = capsys.readouterr().out
    assert "27,000 images expected, 30 found" in flat(printed)
    assert "github.com/phelber/EuroSAT" in printed
    assert printed.splitlines()[-1] == "usable"
    assert len(printed.splitlines()) < 24


def test_doctor_exits_with_2_where_episodes_cannot_be_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path, ("a", "b"), 3)
    assert main(["doctor", str(tmp_path), "--as", "folder", "--shot", "1", "--query", "2"]) == 2
    assert "2 classes of 2 with 1 shot + 2 query = 3 images, but episodes have 5" in flat(capsys.readouterr().out)
    assert main(["doctor", str(tmp_path), "--way", "2", "--shot", "1", "--query", "2"]) == 0


def test_doctor_exits_with_2_and_the_layout_where_nothing_can_be_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path / "train", ("a",), 1)
    assert main(["doctor", str(tmp_path), "--as", "eurosat"]) == 2
    printed = flat(capsys.readouterr().out)
    assert "does not look like EuroSAT" in printed
    assert "layout: 2750/<class>/*.jpg" in printed
    assert main(["doctor", str(tmp_path)]) == 2
    assert "nested too deeply" in flat(capsys.readouterr().out)


def test_names_in_square_brackets_are_printed_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path, ("[bold]",), 1)
    assert main(["doctor", str(tmp_path)]) == 2
    assert "[bold] (1)" in flat(capsys.readouterr().out)


def test_other_words_are_answered_with_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert main(["--help"]) == 0
    assert main(["lst"]) == 2
    captured = capsys.readouterr()
    assert "cplsr data doctor DIR" in captured.out
    assert "cplsr data doctor DIR" in captured.err


def test_heavy_libraries_are_not_imported_for_help() -> None:
    assert heavy_after("from cplsr.cli.data import main; main(['--help'])") == set()
