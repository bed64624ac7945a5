"""The example of docs/classify.md runs as printed."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cplsr.cli.check import Check
from cplsr.cli.classify import Classify
from cplsr.cli.suggest import Suggest

TEXT = (Path(__file__).parents[2] / "docs" / "classify.md").read_text(encoding="utf-8")


@pytest.fixture
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    examples = [f"examples/{name}/{number}" for name in ("rust", "mildew") for number in (1, 2)]
    for place in (*examples, "photos/a", "photos/b", "photos/c"):
        file = tmp_path / f"{place}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        color = (170, 80, 30) if "rust" in place or place == "photos/a" else (220, 225, 220)
        pixels = np.asarray(color) + generator.integers(-25, 26, (30, 30, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(file)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_folders")
def test_the_python_example(tmp_path, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, flags=re.S)

    exec(compile(code, "docs/classify.md", "exec"), {})

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "['rust' 'mildew' 'mildew']"
    assert lines[1] in ("['rust']", "['unknown']")
    assert lines[2].startswith("Of 100 new pictures like these, expect ")
    assert any(line.startswith("rust rust/") for line in lines)
    made = {path.name for path in tmp_path.iterdir() if path.is_dir()} - {"cplsr-cache"}
    assert made == {"examples", "model", "photos"}
    assert Image.open(tmp_path / "where_it_looks.png").size == (128, 128)
    assert len([line for line in lines if line.startswith("photos/")]) == 3


def test_the_commands_are_real():
    commands = re.findall(r"^cplsr (\w+)", TEXT, flags=re.M)

    assert list(dict.fromkeys(commands)) == ["classify", "check", "suggest", "completion"]
    fields = [field for verb in (Classify, Check, Suggest) for field in dataclasses.fields(verb)]
    options = {f"--{field.name.replace('_', '-')}" for field in fields}
    assert set(re.findall(r"--[a-z][a-z-]+", TEXT)) <= options
