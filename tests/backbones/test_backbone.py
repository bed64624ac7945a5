"""The backbone against the functional transcription and against transformers' own forward pass."""

from pathlib import Path

import pytest
import torch
from oracles.closeness import relative_error
from oracles.functional_vit import vit
from oracles.random_vit import random_checkpoint
from safetensors.torch import load_file, save_file

from cplsr.backbones.backbone import Backbone
from cplsr.backbones.load import load_backbone
from cplsr.errors import InputError

SIZES = [
    {"dim": 64, "layers": 2, "patch": 8, "image": 32},
    {"dim": 128, "layers": 3, "patch": 16, "image": 48},
    {"dim": 192, "layers": 1, "patch": 4, "image": 16, "hidden": 300},
    {"dim": 64, "layers": 2, "patch": 8, "image": 32, "qkv_bias": False},
]


@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s['dim']}x{s['layers']}")
@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize(("grid", "antialias"), [(None, True), (2, True), (2, False), (9, True), (9, False)])
def test_embeddings_are_those_of_the_formulas(tmp_path: Path, size, pooling, grid, antialias):
    tensors = random_checkpoint(**size)
    save_file(tensors, tmp_path / "vit_some.safetensors")
    image = size["image"] if grid is None else grid * size["patch"]
    backbone = load_backbone(
        tmp_path / "vit_some.safetensors", image if grid else None, pooling=pooling, antialias=antialias
    )
    images = torch.randn(3, 3, image, image, generator=torch.Generator().manual_seed(1))
    expected = vit(tensors, images, size["dim"] // 64, pooling=pooling, antialias=antialias)
    assert relative_error(backbone(images), expected) <= 1e-5
    double = {name: tensor.double() for name, tensor in tensors.items()}
    expected = vit(double, images.double(), size["dim"] // 64, pooling=pooling, antialias=antialias)
    if grid is None:  # interpolated positions are kept in float32
        assert relative_error(backbone.double()(images.double()), expected) <= 1e-10


@pytest.mark.parametrize("grid", [2, 9])
def test_interpolation_in_float64(tmp_path: Path, grid):
    tensors = random_checkpoint(dim=64, layers=2, patch=8, image=32)
    save_file(tensors, tmp_path / "vit_some.safetensors")
    backbone = load_backbone(tmp_path / "vit_some.safetensors").double()
    backbone.resize(grid * 8)
    images = torch.randn(2, 3, grid * 8, grid * 8, dtype=torch.float64)
    expected = vit({name: tensor.double() for name, tensor in tensors.items()}, images, 1)
    assert relative_error(backbone(images), expected) <= 1e-10


def test_antialiasing_makes_a_difference_when_the_grid_shrinks(checkpoint_file: Path):
    images = torch.randn(2, 3, 16, 16)
    with_it, without = (load_backbone(checkpoint_file, 16, heads=2, antialias=on) for on in (True, False))
    assert relative_error(with_it(images), without(images)) > 1e-3
    assert with_it.position_interpolation != without.position_interpolation
    assert with_it.fingerprint == without.fingerprint == load_backbone(checkpoint_file, heads=2).fingerprint


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_every_family_agrees_with_transformers(family_folder: Path, pooling):
    backbone = load_backbone(family_folder, pooling=pooling)
    images = torch.randn(3, 3, 32, 32)
    tokens = backbone.model(images).last_hidden_state
    assert tokens.shape[1] == backbone.tokens
    expected = tokens[:, 0] if pooling == "cls" else tokens[:, backbone.prefix :].mean(1)
    assert relative_error(backbone(images), expected) <= 1e-5
    assert (backbone.dim, backbone.heads, backbone.head_dim, backbone.layers) == (64, 2, 32, 2)


def test_every_family_takes_other_image_sizes(family_folder: Path):
    backbone = load_backbone(family_folder, 48)
    images = torch.randn(2, 3, 48, 48)
    expected = backbone.model(images).last_hidden_state[:, 0]
    assert relative_error(backbone(images), expected) <= 1e-5
    backbone.model.save_pretrained(family_folder / "larger")
    reloaded = load_backbone(family_folder / "larger", mean=(0.0,) * 3, std=(1.0,) * 3)
    assert relative_error(reloaded(images), expected) <= 1e-5


def test_attention_maps_are_those_of_transformers(family_folder: Path):
    backbone = load_backbone(family_folder)
    images = torch.randn(2, 3, 32, 32)
    backbone.model.set_attn_implementation("eager")
    expected = backbone.model(images, output_attentions=True).attentions
    for layer in (0, 1, -1):
        maps = backbone.attention_maps(images, layer)
        assert relative_error(maps, expected[layer]) <= 1e-5


def test_raw_pixels_are_normalized_and_floats_are_not(backbone: Backbone):
    pixels = torch.randint(0, 256, (2, 3, 32, 32), dtype=torch.uint8)
    assert torch.equal(backbone(pixels), backbone((pixels.float() / 255 - 0.5) / 0.5))


def test_checkpointing_changes_nothing_but_memory(backbone: Backbone):
    from cplsr import attach

    attach(backbone, "coalescent", init="near_identity")
    images, direction = torch.randn(2, 3, 32, 32), torch.randn(64)
    gradients = []
    for backbone.checkpointing in (False, True):
        backbone.zero_grad()
        (backbone(images) @ direction).sum().backward()
        gradients.append([p.grad.clone() for p in backbone.parameters() if p.requires_grad])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_it_is_frozen_and_stays_in_evaluation_mode(backbone: Backbone):
    assert not any(parameter.requires_grad for parameter in backbone.parameters())
    assert not backbone.train().training
    assert not backbone.model.training


def test_bf16_is_near_fp32(checkpoint_file: Path):
    images = torch.randn(4, 3, 32, 32)
    exact = load_backbone(checkpoint_file, heads=2)
    short = load_backbone(checkpoint_file, heads=2, precision="bf16")
    assert short(images).dtype == torch.float32
    assert torch.cosine_similarity(exact(images), short(images)).min() > 0.999
    assert exact.fingerprint == short.fingerprint


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 1, 32, 32), (1, 3, 32, 40), (1, 3, 64, 64)])
def test_images_of_a_wrong_shape_get_a_sentence(backbone: Backbone, shape):
    with pytest.raises(InputError, match="images"):
        backbone(torch.zeros(shape))


@pytest.mark.parametrize("size", [0, 12, 33])
def test_a_size_that_is_no_multiple_of_the_patch_gets_the_nearest_ones(checkpoint_file: Path, size):
    with pytest.raises(InputError, match="multiple of the patch size 8"):
        load_backbone(checkpoint_file, size, heads=2)


@pytest.mark.real_data
@pytest.mark.parametrize("image_size", [224, 112])
def test_real_weights_agree_with_the_formulas(real_data: Path, image_size):
    file = real_data / "weights" / "vit_tiny_patch16_224.safetensors"
    images = torch.randn(2, 3, image_size, image_size)
    assert relative_error(load_backbone(file, image_size)(images), vit(load_file(file), images, 3)) <= 1e-5


def test_cutting_a_batch_changes_nothing(checkpoint_file: Path, monkeypatch):
    from cplsr import attach
    from cplsr.backbones import backbone as module

    backbone = attach(load_backbone(checkpoint_file, heads=2), "coalescent", init="near_identity")
    images, direction = torch.randn(7, 3, 32, 32), torch.randn(64)
    results = []
    for size in (1 << 40, 3 * 4 * 64 * 17 * 4):
        monkeypatch.setattr(module, "CACHE_BYTES", size)
        backbone.zero_grad()
        embeddings = backbone(images)
        (embeddings @ direction).sum().backward()
        results.append([embeddings.detach(), *(p.grad.clone() for p in backbone.parameters() if p.requires_grad)])
    assert backbone.images_at_a_time == 3
    for whole, cut in zip(*results, strict=True):
        assert relative_error(cut, whole) <= 1e-5
