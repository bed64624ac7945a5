"""`cplsr analyze`, as it is called."""

import json

import numpy as np
import pytest
from oracles.fresh_process import heavy_after
from PIL import Image

from cplsr.adapters.attach import attach
from cplsr.adapters.store import save_adapter
from cplsr.backbones.load import load_backbone
from cplsr.cli import main as command
from cplsr.cli.analyze import main


@pytest.fixture(autouse=True)
def wide_screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def images(tmp_path):
    generator = np.random.default_rng(0)
    for name in ("red [1]", "green", "blue"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(5):
            pixels = generator.integers(0, 255, (20, 20, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number}.png")
    return tmp_path / "images"


@pytest.fixture
def options(checkpoint_file):
    return ["--backbone", str(checkpoint_file), "--heads", "2", "--device", "cpu", "--workers", "0", "--way", "3"]


@pytest.fixture
def run_folder(checkpoint_file, tmp_path):
    backbone = attach(load_backbone(checkpoint_file, 48, heads=2), "coalescent", init="near_identity")
    save_adapter(backbone, tmp_path / "runs" / "first" / "adapter", shot=1)
    return tmp_path / "runs" / "first"


def test_from_folders_to_a_folder_and_tables(tmp_path, images, options, run_folder, capsys):
    out = tmp_path / "deep" / "out"
    code = main(
        [*options, "--adapter", str(run_folder), "--target", f"[odd] name={images}", "--base", str(images),
         "--attention", "2", "--shots", "1", "2", "--out", str(out)]
    )  # fmt: skip
    content = json.loads((out / "analysis.json").read_text(encoding="utf-8"))
    assert code == 0
    assert content["adapter"]["name"] == "first"
    assert content["backbone"]["image_size"] == 48  # the adapter's
    assert set(content["domains"]) == {"[odd] name", "images"}
    assert content["domains"]["[odd] name"]["before"]["proxy_distance"] is not None
    assert [entry["file"] for entry in content["attention"]] == [
        "attention/images-0.png", "attention/images-1.png", "attention/odd_name-0.png", "attention/odd_name-1.png"
    ]  # fmt: skip
    assert all((out / entry["file"]).is_file() for entry in content["attention"])
    printed = capsys.readouterr().out
    for words in ("[odd] name", "What the embeddings look like", "V_wit", "Heads that changed most", "not estimated"):
        assert words in printed
    first = content["domains"]["[odd] name"]
    assert f"{first['before']['within_between']:.4g} → {first['after']['within_between']:.4g}" in printed
    assert str(out) in printed


def test_a_named_adapter_and_the_frozen_backbone_alone(tmp_path, images, options, run_folder, capsys):
    main([*options, "--adapter", f"CP={run_folder}", "--target", str(images), "--out", str(tmp_path / "cp")])
    assert json.loads((tmp_path / "cp" / "analysis.json").read_text())["adapter"]["name"] == "CP"
    capsys.readouterr()
    main([*options, "--target", str(images), "--images-per-class", "0", "--out", str(tmp_path / "frozen")])
    content = json.loads((tmp_path / "frozen" / "analysis.json").read_text())
    assert content["adapter"] is None
    assert content["settings"]["images_per_class"] is None
    printed = capsys.readouterr().out
    assert "→" not in printed
    assert "Heads" not in printed


def test_cost_is_shown_and_drawn(tmp_path, images, options, capsys, monkeypatch):
    from functools import partial

    from cplsr.analysis import analyze as module

    monkeypatch.setattr(module, "cost_rows", partial(module.cost_rows, sizes=(32,), images=1, repetitions=1))
    main([*options, "--target", str(images), "--cost", "--out", str(tmp_path / "out")])
    assert (tmp_path / "out" / "cost.png").is_file()
    printed = capsys.readouterr().out
    for words in ("What adapters cost", "soft_prompts 8", "attn_scale", "ms per image"):
        assert words in printed


def test_mistakes_are_one_sentence_and_nothing_is_written(tmp_path, images, options, capsys):
    out = tmp_path / "out"
    assert command(["analyze", *options, "--out", str(out)]) == 2
    assert "give --target" in capsys.readouterr().err
    assert command(["analyze", *options, "--target", str(images), "--way", "9", "--out", str(out)]) == 2
    assert "lower --way" in capsys.readouterr().err
    assert command(["analyze", *options, "--target", str(images), "--out", str(tmp_path)]) == 2
    assert "not overwritten" in capsys.readouterr().err
    assert not out.exists()


def test_help_does_not_load_the_heavy_libraries():
    assert heavy_after("import cplsr.cli.analyze") == set()
