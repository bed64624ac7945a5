"""`cplsr export`, as it is called; and the example scripts of the documentation, run on what it writes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from oracles.closeness import relative_error
from oracles.disturbed import disturbed
from PIL import Image

from cplsr.adapters.store import load_adapter, save_adapter
from cplsr.backbones.load import load_backbone
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.cli import main as cplsr
from cplsr.cli.export import main
from cplsr.data.preprocess import preprocess
from cplsr.errors import InputError

DOCS = Path(__file__).parents[2] / "docs"
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)


@pytest.fixture
def run_folder(tmp_path: Path, checkpoint_file: Path) -> Path:
    """A run whose adapter was trained at 40 px, with colors and a position interpolation of its own."""
    backbone = load_backbone(checkpoint_file, 40, heads=2, mean=MEAN, std=STD, antialias=False)
    save_adapter(disturbed(backbone, "coalescent"), tmp_path / "run" / "adapter", shot=5)
    return tmp_path / "run"


@pytest.fixture
def photos(tmp_path: Path) -> list[str]:
    generator = np.random.default_rng(0)
    files = [tmp_path / f"photo{number}.png" for number in range(3)]
    for file in files:
        Image.fromarray(generator.integers(0, 256, (60, 50, 3), dtype=np.uint8)).save(file)
    return [str(file) for file in files]


def adapted(run_folder: Path, checkpoint_file: Path):
    backbone = load_backbone(checkpoint_file, 40, heads=2, mean=MEAN, std=STD, antialias=False)
    return load_adapter(backbone, run_folder)


def cosines(backbone, photos: list[str]) -> list[float]:
    """Cosine of each photo with the first, from the package itself."""
    pixels = np.stack([preprocess(Image.open(file), backbone.image_size) for file in photos])
    embeddings = backbone(torch.from_numpy(pixels)).detach()
    return torch.cosine_similarity(embeddings, embeddings[:1]).tolist()


def example(name: str, *arguments: str) -> list[list[str]]:
    """The printed lines of an example script, cut at the first space."""
    command = [sys.executable, str(DOCS / "examples" / name), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    return [line.split(" ") for line in result.stdout.splitlines()]


def test_to_transformers_as_the_adapter_was_trained(tmp_path: Path, run_folder, checkpoint_file, photos, capsys):
    out = tmp_path / "merged"
    assert main(["--adapter", str(run_folder), "--to", "transformers", "--out", str(out)]) == 0
    assert "folded into the weights" in capsys.readouterr().out
    config = json.loads((out / "preprocessor_config.json").read_text())
    assert (config["image_mean"], config["crop_size"]["height"]) == (list(MEAN), 40)
    shown = example("embed_with_transformers.py", str(out), *photos)
    assert [float(line[0]) for line in shown] == pytest.approx(
        cosines(adapted(run_folder, checkpoint_file), photos), abs=1e-5
    )


def test_to_timm_from_a_backbone_that_has_moved(tmp_path: Path, run_folder, checkpoint_file, photos):
    moved = checkpoint_file.rename(tmp_path / "moved.safetensors")
    out = tmp_path / "merged.safetensors"
    words = ["--adapter", str(run_folder), "--to", "timm", "--out", str(out)]
    with pytest.raises(InputError, match=r"vit_random.*--backbone"):
        main(words)
    assert main([*words, "--backbone", str(moved)]) == 0
    shown = example("embed_with_timm_keys.py", str(out), *photos)
    assert [float(line[0]) for line in shown] == pytest.approx(cosines(adapted(run_folder, moved), photos), abs=1e-5)


def test_a_saved_classifier_to_onnx(tmp_path: Path, run_folder, checkpoint_file, photos):
    """Three classes of one photo each and a second photo of the first; the graph answers as the classifier does."""
    classifier = FewShotClassifier(adapted(run_folder, checkpoint_file), workers=0)
    second = str(tmp_path / "second.png")
    Image.open(photos[0]).rotate(180).save(second)
    classifier.fit([*photos, second], ["ant", "bee", "cow", "ant"]).save(tmp_path / "model")
    out = tmp_path / "classifier.onnx"
    assert main(["--model", str(tmp_path / "model"), "--to", "onnx", "--raw-pixels", "--out", str(out)]) == 0
    queries = [*photos, second]
    shown = example("classify_with_onnx.py", str(out), *queries)
    assert [line[1] for line in shown] == classifier.predict(queries).tolist()
    assert [float(line[0]) for line in shown] == pytest.approx(
        classifier.predict_proba(queries).max(axis=1).tolist(), abs=1e-5
    )


def test_frozen_with_options_of_its_own(tmp_path: Path, checkpoint_file, capsys):
    out = tmp_path / "frozen"
    code = main(["--backbone", str(checkpoint_file), "--heads", "4", "--image-size", "24", "--pooling", "mean",
                 "--to", "transformers", "--out", str(out)])  # fmt: skip
    assert code == 0
    assert "as it is" in capsys.readouterr().out
    images = torch.randn(2, 3, 24, 24)
    again = load_backbone(out, pooling="mean")
    wanted = load_backbone(checkpoint_file, 24, heads=4, pooling="mean")
    assert again.heads == 4
    assert relative_error(again(images), wanted(images)) < 1e-5


def test_depth_of_an_adapter_that_was_trained_on_the_class_token(tmp_path: Path, run_folder, checkpoint_file):
    words = ["--adapter", str(run_folder), "--pooling", "depth", "--layers", "-1", "--to", "onnx"]
    assert main([*words, "--out", str(tmp_path / "depth.onnx")]) == 0
    with pytest.raises(InputError, match=r"layers \[5\] do not exist"):
        main([*words[:5], "5", *words[6:], "--out", str(tmp_path / "other.onnx")])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "timm", "--out", "x.onnx"], "must end in .safetensors"),
        (["--to", "onnx", "--out", "x"], "must end in .onnx"),
        (["--to", "timm", "--out", "x.safetensors", "--raw-pixels"], "--raw-pixels"),
        (["--to", "browser", "--out", "x"], "give its folder as --model"),
        (["--to", "timm", "--out", "x.safetensors", "--model", "m"], "--to onnx or browser only"),
        (["--to", "onnx", "--out", "x.onnx", "--model", "m", "--image-size", "64"], "--image-size"),
        (["--to", "transformers", "--out", "taken"], "not empty"),
        (["--to", "transformers", "--out", "x", "--adapter", "./nowhere"], "no adapter"),
        (["--to", "onnx", "--out", "x.onnx", "--model", "./nowhere"], "nowhere"),
    ],
)
def test_mistakes_are_a_sentence_and_leave_nothing(tmp_path: Path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    assert cplsr(["export", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_the_page_shows_the_scripts_as_they_are():
    """The documentation prints the same lines that are run above."""
    page = (DOCS / "export.md").read_text(encoding="utf-8")
    shown = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    scripts = sorted((DOCS / "examples").glob("*_with_*.py"))
    assert len(scripts) == 3
    for script in scripts:
        text = script.read_text(encoding="utf-8")
        body = text.split("# ruff: noqa: T201\n\n", 1)[1]
        assert body in shown, script.name
        assert len(body.strip().splitlines()) <= 20
