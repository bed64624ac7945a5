"""The worked example of docs/add_an_adapter.md works as printed: one file, one line."""

import re
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from oracles.closeness import relative_error

from cplsr import attach, load_adapter, load_backbone, merge, save_adapter
from cplsr.adapters.kinds import KINDS

TEXT = (Path(__file__).parents[2] / "docs" / "add_an_adapter.md").read_text(encoding="utf-8")


@pytest.fixture
def _example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, line = re.findall(r"```python\n(.*?)```", TEXT, flags=re.S)
    (tmp_path / "cplsr_example").mkdir()
    (tmp_path / "cplsr_example" / "head_temperature.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    name, place = re.fullmatch(r'\s*"(\w+)": "([\w.:]+)",\s*', line).groups()
    place = place.replace("cplsr.adapters", "cplsr_example")
    monkeypatch.setitem(KINDS.own, name, EntryPoint(name, place, KINDS.group))


@pytest.mark.usefixtures("_example")
def test_the_example_adapter_attaches_trains_merges_and_is_stored(checkpoint_file: Path, tmp_path: Path):
    backbone = load_backbone(checkpoint_file, heads=2)
    images = torch.randn(2, 3, 32, 32)
    frozen = backbone(images)
    attach(backbone, "head_temperature")
    assert relative_error(backbone(images), frozen) < 1e-5
    for parameter in backbone.adapter.parameters():
        parameter.data += 0.5 * torch.rand_like(parameter)
    (backbone(images) @ torch.randn(64)).sum().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in backbone.adapter.parameters())
    assert relative_error(merge(backbone)(images), backbone(images)) < 1e-5
    save_adapter(backbone, tmp_path / "a")
    other = load_adapter(load_backbone(checkpoint_file, heads=2), tmp_path / "a")
    assert torch.equal(other(images), backbone(images))
