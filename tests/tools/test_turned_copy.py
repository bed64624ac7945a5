"""The copy of a domain with its images turned."""

import runpy
from pathlib import Path

import numpy as np
from oracles.color_folders import color_folders
from PIL import Image

turned_copy = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "turned_copy.py"))["turned_copy"]


def pixels(path):
    return np.asarray(Image.open(path).convert("RGB"))


def test_every_image_is_turned_some_way_and_a_smaller_copy_is_part_of_it(tmp_path):
    source = color_folders(tmp_path / "domains", ("base",), prefix="c", colors=(0, 255), key=5) / "base"
    count = turned_copy(source, tmp_path / "all")
    files = sorted(path.relative_to(source) for path in source.rglob("*.png"))
    assert count == len(files) > 0
    turns = []
    for file in files:
        before, after = pixels(source / file), pixels(tmp_path / "all" / file)
        turns.append(next(turn for turn in range(4) if np.array_equal(np.rot90(before, turn), after)))
    assert len(set(turns)) == 4
    assert turned_copy(source, tmp_path / "few", per_class=2) == 2 * len(list(source.iterdir()))
    for file in (path.relative_to(tmp_path / "few") for path in (tmp_path / "few").rglob("*.png")):
        assert np.array_equal(pixels(tmp_path / "few" / file), pixels(tmp_path / "all" / file))
