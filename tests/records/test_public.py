"""Files that are passed on tell nothing of the folders of those who made them."""

import json
from pathlib import Path

import numpy as np
import pytest
from oracles import report_inputs
from PIL import Image

from cplsr.adapters.attach import attach
from cplsr.adapters.store import save_adapter
from cplsr.backbones.load import load_backbone
from cplsr.cli import main
from cplsr.records.public import public, public_command, public_path


def test_paths_are_told_from_the_working_folder_or_by_their_end(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert public_path(tmp_path / "a" / "b" / "c.json") == "a/b/c.json"
    assert public_path("a/b/c.json") == "a/b/c.json"
    assert public_path("/home/me/secret/data/x") == "data/x"
    assert public_path(tmp_path) == "/".join(tmp_path.parts[-2:])
    assert public_path("/data") == "data"


def test_a_command_keeps_its_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [
        "cplsr",
        "x",
        "--target",
        "T=/home/me/my data/t",
        f"--out={tmp_path}/o.json",
        "csv:/home/me/a/b.csv",
        "a=b",
    ]
    assert public_command(words) == "cplsr x --target 'T=my data/t' --out=o.json csv:a/b.csv a=b"


@pytest.mark.parametrize(
    "text", ["facebook/dino-vits16", "hf:user/name", "https://host/a/b", "a / b", "1/2", "/", "rate 3e-3"]
)
def test_other_texts_stay(text):
    assert public(text) == text


def test_texts_anywhere_inside_are_shortened_and_names_of_entries_are_not():
    told = public({"/m/01g317": ["see /home/me/x/y.png, please"], "n": 3, "t": ("C:\\Users\\me",)})
    assert told["/m/01g317"] == ["see x/y.png, please"]
    assert told["n"] == 3


def absolute_paths(text: str, folder: Path) -> list[str]:
    return [line for line in text.replace(",", "\n").splitlines() if str(folder) in line]


def test_no_folder_of_the_user_is_in_results_a_run_or_a_page(tmp_path, checkpoint_file, monkeypatch):
    home = tmp_path / "home" / "me" / "work"
    generator = np.random.default_rng(0)
    for name in ("x", "y"):
        (home / "images" / name).mkdir(parents=True)
        for number in range(4):
            pixels = generator.integers(0, 255, (20, 20, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(home / "images" / name / f"{number}.png")
    weights = home / "weights" / "vit_tiny.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(checkpoint_file.read_bytes())
    save_adapter(attach(load_backbone(weights, heads=2), "coalescent"), home / "runs" / "one" / "adapter", shot=1)
    monkeypatch.chdir(tmp_path)
    model = ["--backbone", str(weights), "--heads", "2", "--device", "cpu", "--workers", "0"]
    measured = ["--target", f"T={home / 'images'}", "--adapter", f"CP={home / 'runs' / 'one'}", "--way", "2"]
    size = ["--shots", "1", "--query", "2", "--episodes", "4", "--no-cache"]
    assert main(["evaluate", *model, *measured, *size, "--out", str(home / "results.json")]) == 0
    run = report_inputs.write_run(home / "run")
    content = json.loads((run / "run.json").read_text())
    content["command"] = f"cplsr train --out {home / 'run'} --base '{home}/images'"  # as older versions wrote it
    content["backbone"] = {**content["backbone"], "source": str(weights)}
    content["data"]["val"]["flags"] = [f"{home / 'images'}: odd", f"odd ({home / 'images'})"]
    (run / "run.json").write_text(json.dumps(content))
    assert main(["report", str(home / "results.json"), str(run), "--out", str(home / "r.html")]) == 0
    settings = json.loads((home / "results.json").read_text())["settings"]
    assert settings["backbone"]["source"] == "home/me/work/weights/vit_tiny.safetensors"
    assert settings["adapters"][0]["source"] == "home/me/work/runs/one/adapter"
    for file in ("results.json", "r.html"):
        assert absolute_paths((home / file).read_text(encoding="utf-8"), tmp_path) == []
