"""Checkpoints in timm's key names: read by formulas that know nothing of the package, and by the package again."""

import json
from pathlib import Path

import pytest
import torch
from oracles.closeness import relative_error
from oracles.disturbed import disturbed
from oracles.functional_vit import vit
from oracles.random_vit import random_checkpoint
from safetensors.torch import load_file

from cplsr.backbones.load import load_backbone
from cplsr.errors import InputError
from cplsr.export.to_timm import export_timm


def test_plain_formulas_over_the_file_give_the_embeddings_of_the_adapter(tmp_path: Path, backbone):
    disturbed(backbone, "coalescent")
    done = export_timm(backbone, tmp_path / "new" / "vit.safetensors")
    assert done.merged
    tensors = load_file(tmp_path / "new" / "vit.safetensors")
    same_shape = random_checkpoint(dim=64, layers=2, patch=8, image=32)
    assert {name: t.shape for name, t in tensors.items()} == {name: t.shape for name, t in same_shape.items()}
    images = torch.randn(3, 3, 32, 32)
    assert relative_error(vit(tensors, images, heads=2), backbone(images)) < 1e-5
    original = {name: C.detach() for name, C in backbone.adapter.projections().items()}
    by_eq_3 = vit(load_file(backbone.source), images, heads=2, C=[original[0], original[1]])
    assert relative_error(vit(tensors, images, heads=2), by_eq_3) < 1e-5


@pytest.mark.parametrize("family", ["vit", "vit_msn", "deit", "dinov2", "dinov2_registers"])
def test_the_package_reads_its_own_file_with_nothing_said(tmp_path: Path, all_families, family, recwarn):
    backbone = disturbed(load_backbone(all_families[family], image_size=48), "coalescent")
    done = export_timm(backbone, tmp_path / "x.safetensors")
    again = load_backbone(tmp_path / "x.safetensors")
    assert (again.heads, again.mean, again.std, again.image_size) == (2, backbone.mean, backbone.std, 48)
    images = torch.randn(3, 3, 48, 48)
    error = relative_error(again(images), backbone(images))
    assert error < 1e-4
    assert done.difference < 1e-4
    assert not [warning for warning in recwarn if warning.category is UserWarning]
    assert {file.name for file in tmp_path.iterdir()} == {"x.safetensors", "x.safetensors.json"}


def test_names_and_shapes_of_register_models_are_those_of_timm(tmp_path: Path, all_families):
    """Positions for patches alone, registers and LayerScale under timm's names."""
    export_timm(load_backbone(all_families["dinov2_registers"]), tmp_path / "x.safetensors")
    shapes = {name: tuple(tensor.shape) for name, tensor in load_file(tmp_path / "x.safetensors").items()}
    outside = {name: shape for name, shape in shapes.items() if not name.startswith("blocks.")}
    assert outside == {
        "cls_token": (1, 1, 64),
        "reg_token": (1, 4, 64),
        "pos_embed": (1, 16, 64),
        "patch_embed.proj.weight": (64, 3, 8, 8),
        "patch_embed.proj.bias": (64,),
        "norm.weight": (64,),
        "norm.bias": (64,),
    }
    parts = ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
    first = {name.removeprefix("blocks.0.") for name in shapes if name.startswith("blocks.0.")}
    assert first == {f"{part}.{kind}" for part in parts for kind in ("weight", "bias")} | {"ls1.gamma", "ls2.gamma"}


def test_the_json_beside_it_tells_what_tensors_cannot(tmp_path: Path, backbone):
    export_timm(disturbed(backbone, "coalescent"), tmp_path / "x.safetensors")
    told = json.loads((tmp_path / "x.safetensors.json").read_text())
    assert (told["heads"], told["image_size"], told["patch_size"], told["dim"], told["layers"]) == (2, 32, 8, 64, 2)
    assert told["adapter"]["kind"] == "coalescent"


@pytest.mark.parametrize(("family", "words"), [("dinov3", "dinov3_vit.*--to"), ("dinov2_swiglu", "gated MLPs.*--to")])
def test_families_without_such_names_are_refused(tmp_path: Path, all_families, family, words):
    with pytest.raises(InputError, match=words):
        export_timm(load_backbone(all_families[family]), tmp_path / "x.safetensors")
    assert list(tmp_path.glob("x*")) == []


def test_an_epsilon_that_readers_do_not_have_is_refused_where_it_matters(tmp_path: Path, backbone):
    backbone.model.layernorm.eps = backbone.model.config.layer_norm_eps = 0.5
    with pytest.raises(InputError, match=r"layer_norm_eps 1e-6, not 0\.5"):
        export_timm(backbone, tmp_path / "new" / "x.safetensors")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_write_that_fails_leaves_neither_file(tmp_path: Path, backbone, monkeypatch):
    def full_disk(*_):
        raise OSError("no space left")

    monkeypatch.setattr("cplsr.export.to_timm.shutil.copyfileobj", full_disk)
    with pytest.raises(OSError, match="no space left"):
        export_timm(backbone, tmp_path / "new" / "x.safetensors")
    assert list((tmp_path / "new").iterdir()) == []


def test_depth_and_its_blocks_are_compared_too(tmp_path: Path, checkpoint_file):
    backbone = load_backbone(checkpoint_file, heads=2, pooling="depth", layers=(1,))
    export_timm(backbone, tmp_path / "x.safetensors")
    told = json.loads((tmp_path / "x.safetensors.json").read_text())
    assert (told["pooling"], told["backbone"]["pooled_layers"]) == ("depth", [1])
