"""A merged folder is an ordinary transformers model: same embeddings, same preprocessing, no cplsr."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from oracles.closeness import relative_error
from oracles.disturbed import disturbed
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import AutoImageProcessor

from cplsr.adapters.attach import attach
from cplsr.backbones.load import load_backbone
from cplsr.data.preprocess import preprocess
from cplsr.errors import InputError
from cplsr.export.to_transformers import export_transformers

WITHOUT_CPLSR = """
import sys


class Forbid:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "cplsr":
            raise ImportError("cplsr is not installed here")


sys.meta_path.insert(0, Forbid())
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel

jobs = sys.argv[1:]
for job in jobs:
    images = load_file(job + "/images.safetensors")["images"]
    model = AutoModel.from_pretrained(job + "/out").eval()
    with torch.no_grad():
        save_file({"tokens": model(images).last_hidden_state}, job + "/tokens.safetensors")
assert "cplsr" not in sys.modules
try:
    import cplsr
except ImportError:
    print("done without cplsr")
"""


def test_every_family_and_adapter_in_a_process_without_cplsr(tmp_path: Path, all_families):
    """One process for all of them: the cost is in its start."""
    cases = [
        ("vit", "coalescent", {}, {"image_size": 48}),
        ("deit", "coalescent", {"sharing": "shared"}, {"pooling": "mean"}),
        ("vit_msn", "lora", {}, {}),
        ("dinov2", "residual", {}, {"image_size": 24}),
        ("dinov2_swiglu", "coalescent", {}, {}),
        ("dinov2_registers", "coalescent", {"constraint": "mahalanobis"}, {"image_size": 40, "antialias": False}),
        ("dinov3", "residual", {}, {}),
        ("vit", None, {}, {}),
    ]
    wanted = {}
    for number, (family, kind, options, loading) in enumerate(cases):
        backbone = load_backbone(all_families[family], **loading)
        frozen = backbone(images := torch.randn(3, 3, backbone.image_size, backbone.image_size))
        if kind is not None:
            disturbed(backbone, kind, **options)
            assert relative_error(backbone(images), frozen) > 1e-3
        job = tmp_path / f"job{number}"
        done = export_transformers(backbone, job / "out")
        assert (done.path, done.merged) == (job / "out", kind is not None)
        assert done.difference < 1e-5
        assert (backbone.adapter is None) == (kind is None), "the source is left as it was"
        save_file({"images": images}, job / "images.safetensors")
        wanted[job] = (backbone, backbone(images).detach())
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_CPLSR, *map(str, wanted)], capture_output=True, text=True, check=False
    )
    assert "done without cplsr" in run.stdout, run.stderr[-2000:]
    for job, (backbone, embeddings) in wanted.items():
        tokens = load_file(job / "tokens.safetensors")["tokens"]
        result = tokens[:, 0] if backbone.pooling == "cls" else tokens[:, -backbone.patches :].mean(1)
        assert relative_error(result, embeddings) < 1e-5, job


@pytest.mark.parametrize("family", ["vit", "dinov2_registers", "dinov3"])
def test_the_readme_of_a_depth_embedding_is_code_that_gives_it(tmp_path: Path, all_families, family):
    backbone = disturbed(load_backbone(all_families[family], pooling="depth"), "residual")
    export_transformers(backbone, tmp_path / "out")
    code = (tmp_path / "out" / "README.md").read_text().split("```python\n")[1].split("```")[0]
    images = torch.randn(2, 3, 32, 32)
    code = code.replace("FOLDER", repr(str(tmp_path / "out"))).replace('Image.open("photo.jpg")', "")
    code = code.replace('processor(images, return_tensors="pt")', '{"pixel_values": pixels}')
    names = {"pixels": images}
    exec(code, names)
    assert relative_error(names["embedding"], backbone(images)) < 1e-5
    assert f"({2 * 2 * 64} numbers for each image)" in code


def test_the_folder_tells_how_to_use_it_and_where_it_comes_from(tmp_path: Path, backbone):
    disturbed(backbone, "coalescent")
    export_transformers(backbone, tmp_path / "out")
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert names == {"config.json", "model.safetensors", "preprocessor_config.json", "README.md", "export.json"}
    assert len({file.stat().st_mode for file in (tmp_path / "out").iterdir()}) == 1, "all readable by the same people"
    text = (tmp_path / "out" / "README.md").read_text()
    for part in ("36 x 36", "BICUBIC", "[2:34, 2:34]", "coalescent", "[0.5, 0.5, 0.5]", "add_pooling_layer=False"):
        assert part in text
    assert str(tmp_path) not in text + (tmp_path / "out" / "export.json").read_text()
    told = json.loads((tmp_path / "out" / "export.json").read_text())
    assert told["backbone"]["fingerprint"] == backbone.fingerprint
    assert told["adapter"]["fingerprint"] == backbone.adapter.fingerprint


def test_cplsr_opens_the_folder_again(tmp_path: Path, backbone, recwarn):
    disturbed(backbone, "coalescent")
    export_transformers(backbone, tmp_path / "out")
    again = load_backbone(tmp_path / "out")
    assert (again.mean, again.std, again.image_size) == (backbone.mean, backbone.std, backbone.image_size)
    images = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    assert relative_error(again(images), backbone(images)) < 1e-5
    assert not [warning for warning in recwarn if warning.category is UserWarning]


@pytest.mark.parametrize(("size", "same"), [(32, True), (224, True), (448, False)])
def test_the_image_processor_and_the_readme_crop_as_cplsr_does(tmp_path: Path, checkpoint_file, size, same, recwarn):
    """At 448 px the margin is 33.5: transformers rounds it down, and that is said."""
    backbone = load_backbone(checkpoint_file, size, heads=2, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
    (tmp_path / "out").mkdir()
    export_transformers(backbone, tmp_path / "out")
    said = [str(warning.message) for warning in recwarn if "crops" in str(warning.message)]
    assert same == (not said)
    assert same or "from pixel 33 on, cplsr from pixel 34" in said[0]
    generator = np.random.default_rng(0)
    image = Image.fromarray(generator.integers(0, 256, (90, 70, 3), dtype=np.uint8))
    wanted = backbone.normalize(torch.from_numpy(preprocess(image, size))[None])[0]
    processor = AutoImageProcessor.from_pretrained(tmp_path / "out", backend="pil")
    by_processor = processor(image, return_tensors="pt")["pixel_values"][0]
    assert by_processor.shape == wanted.shape
    assert (relative_error(by_processor, wanted) < 1e-5) == same
    text = (tmp_path / "out" / "README.md").read_text()
    assert ("crops the same pixels" in text) == same
    code = text.split("```python\n")[2].split("```")[0]
    names: dict = {}
    exec(code, names)
    assert relative_error(names["pixels"](image), wanted) < 1e-5


@pytest.mark.parametrize("kind", ["attn_scale", "soft_prompts"])
def test_adapters_without_an_equivalent_in_weights_are_refused(tmp_path: Path, backbone, kind):
    attach(backbone, kind)
    with pytest.raises(InputError, match=rf"{kind}.*--to onnx"):
        export_transformers(backbone, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_coalescent_projection_behind_a_rotary_position_is_refused(tmp_path: Path, all_families):
    backbone = attach(load_backbone(all_families["dinov3"]), "coalescent")
    with pytest.raises(InputError, match=r"rotates queries.*--to onnx"):
        export_transformers(backbone, tmp_path / "out")


def test_a_number_format_other_than_float32_is_refused(tmp_path: Path, checkpoint_file):
    backbone = load_backbone(checkpoint_file, heads=2, precision="bf16")
    with pytest.raises(InputError, match="precision fp32"):
        export_transformers(backbone, tmp_path / "out")


def test_a_result_that_differs_leaves_nothing_behind(tmp_path: Path, backbone, monkeypatch):
    monkeypatch.setattr("cplsr.export.to_transformers.TOLERANCE", -1.0)
    with pytest.raises(InputError, match="differ from the source"):
        export_transformers(backbone, tmp_path / "runs" / "out")
    assert list((tmp_path / "runs").iterdir()) == []
