"""Key names of other projects: LayerScale, registers, distillation tokens, and the way back."""

import pytest
import torch
from oracles.random_vit import random_checkpoint
from safetensors.torch import save_file

from cplsr.backbones.checkpoint_keys import read_config, to_checkpoint_keys, translate, unwrap
from cplsr.backbones.load import load_backbone
from cplsr.errors import InputError

PLAIN = random_checkpoint(dim=64, layers=2, patch=8, image=32)


def test_translation_and_its_reverse_are_one_to_one():
    there = translate(PLAIN, read_config(PLAIN))
    back = to_checkpoint_keys(there)
    assert back.keys() == PLAIN.keys()
    assert all(torch.equal(back[name], PLAIN[name]) for name in PLAIN)


def test_shapes_decide_the_architecture():
    config = read_config(random_checkpoint(dim=128, layers=3, patch=4, image=24, hidden=200))
    assert (config.model_type, config.hidden_size, config.num_hidden_layers) == ("vit", 128, 3)
    assert (config.intermediate_size, config.patch_size, config.image_size) == (200, 4, 24)


def test_layer_scale_without_a_class_position_is_the_same_sum(tmp_path):
    """deit3 and timm's register models give positions to patches only; scale 1 and no position must change nothing."""
    tensors = dict(PLAIN)
    tensors["pos_embed"] = tensors["pos_embed"].clone()
    tensors["pos_embed"][:, 0] = 0
    save_file(tensors, tmp_path / "vit_plain.safetensors")
    ones = {f"blocks.{layer}.ls{part}.gamma": torch.ones(64) for layer in range(2) for part in (1, 2)}
    scaled = {**tensors, **ones, "pos_embed": tensors["pos_embed"][:, 1:].contiguous()}
    save_file(scaled, tmp_path / "deit3_scaled.safetensors")
    images = torch.randn(2, 3, 32, 32)
    plain, other = (load_backbone(tmp_path / f"{name}.safetensors") for name in ("vit_plain", "deit3_scaled"))
    assert other.model.config.model_type == "dinov2"
    torch.testing.assert_close(plain(images), other(images), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("extra", "model_type", "prefix"),
    [
        ({"dist_token": torch.randn(1, 1, 64), "pos_embed": torch.randn(1, 18, 64)}, "deit", 2),
        (
            {"reg_token": torch.randn(1, 4, 64)}
            | {f"blocks.{layer}.ls{part}.gamma": torch.rand(64) for layer in range(2) for part in (1, 2)},
            "dinov2_with_registers",
            5,
        ),
    ],
)
def test_distillation_and_register_tokens(tmp_path, extra, model_type, prefix):
    save_file({**PLAIN, **extra}, tmp_path / "deit_x.safetensors")
    backbone = load_backbone(tmp_path / "deit_x.safetensors")
    assert backbone.model.config.model_type == model_type
    assert backbone.prefix == prefix
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(backbone(images), backbone.model(images).last_hidden_state[:, 0], rtol=1e-4, atol=1e-4)


def test_containers_and_prefixes_are_unwrapped():
    wrapped = {"model": {"module": 1, "state_dict": {f"_orig_mod.module.{name}": t for name, t in PLAIN.items()}}}
    assert unwrap(wrapped).keys() == PLAIN.keys()


@pytest.mark.parametrize(
    ("name", "tensor", "sentence"),
    [
        ("blocks.0.attn.qkv.weight", torch.zeros(2, 64), r"qkv.weight has the shape \[2, 64\]; 192 rows"),
        ("blocks.1.attn.qkv.weight", torch.zeros(190, 64), "192 rows"),
        ("blocks.1.attn.qkv.bias", torch.tensor(1.0), r"qkv.bias has the shape \[\]"),
        ("pos_embed", torch.zeros(17), "3 dimensions were wanted"),
        ("blocks.0.mlp.fc1.weight", torch.zeros(0, 64), "fc1.weight has the shape"),
        ("blocks.900000000.norm1.weight", torch.zeros(64), "some are missing"),
    ],
)
def test_what_was_cut_is_a_sentence(tmp_path, name, tensor, sentence):
    save_file({**PLAIN, name: tensor}, tmp_path / "vit_cut.safetensors")
    with pytest.raises(InputError, match=sentence):
        load_backbone(tmp_path / "vit_cut.safetensors")
