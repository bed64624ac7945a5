"""AttnScale, soft prompts, residual vectors and LoRA against literal transcriptions."""

from pathlib import Path

import pytest
import torch
from oracles.closeness import relative_error
from oracles.functional_vit import literal_network
from safetensors.torch import load_file

from cplsr import attach, detach, load_backbone, merge
from cplsr.adapters.attach import adapter_of
from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError


def disturbed(backbone: Backbone, kind: str, **options) -> Backbone:
    attach(backbone, kind, **options)
    generator = torch.Generator().manual_seed(11)
    for parameter in adapter_of(backbone).parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return backbone


@pytest.fixture
def tensors(checkpoint_file: Path):
    return load_file(checkpoint_file)


def test_attn_scale_multiplies_scores_before_the_softmax(backbone: Backbone, tensors):
    disturbed(backbone, "attn_scale")
    A = list(adapter_of(backbone).A)
    images = torch.randn(2, 3, 32, 32)
    expected = literal_network(tensors, images, scores=lambda layer, head, m: A[layer][head] * m)
    assert relative_error(backbone(images), expected[:, 0]) <= 1e-5


def test_attn_scale_with_residual_vectors_adds_both(backbone: Backbone, tensors):
    disturbed(backbone, "attn_scale", residual=True)
    A, vectors = list(adapter_of(backbone).A), adapter_of(backbone).residual.vectors
    images = torch.randn(2, 3, 32, 32)
    expected = literal_network(
        tensors,
        images,
        scores=lambda layer, head, m: A[layer][head] * m,
        attention_vector=lambda layer: vectors[layer]["attention"],
        mlp_vector=lambda layer: vectors[layer]["mlp"],
    )
    assert relative_error(backbone(images), expected[:, 0]) <= 1e-5


def test_residual_vectors_are_added_to_both_branches(backbone: Backbone, tensors):
    disturbed(backbone, "residual")
    vectors = adapter_of(backbone).vectors
    images = torch.randn(2, 3, 32, 32)
    expected = literal_network(
        tensors,
        images,
        attention_vector=lambda layer: vectors[layer]["attention"],
        mlp_vector=lambda layer: vectors[layer]["mlp"],
    )
    assert relative_error(backbone(images), expected[:, 0]) <= 1e-5


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("mode", ["accumulate", "replace"])
@pytest.mark.parametrize("length", [1, 2, 4, 8])
def test_soft_prompts_are_tokens_of_every_layer(checkpoint_file: Path, tensors, length, mode, pooling):
    """Literal version: appended at the end, where the order of tokens is the reader's natural one."""
    backbone = disturbed(
        load_backbone(checkpoint_file, heads=2, pooling=pooling), "soft_prompts", length=length, mode=mode
    )
    prompts = list(adapter_of(backbone).prompts)
    images = torch.randn(2, 3, 32, 32)

    def enter(layer, x):
        kept = x[:, :17] if mode == "replace" else x
        return torch.cat([kept, prompts[layer].expand(2, -1, -1)], 1)

    tokens = literal_network(tensors, images, enter=enter)
    assert tokens.shape[1] == 17 + length * (2 if mode == "accumulate" else 1)
    expected = tokens[:, 0] if pooling == "cls" else tokens[:, 1:17].mean(1)
    assert relative_error(backbone(images), expected) <= 1e-5


def test_soft_prompts_start_normal_with_the_right_spread(backbone: Backbone):
    attach(backbone, "soft_prompts", length=64)
    values = torch.cat([p.detach().flatten() for p in adapter_of(backbone).prompts])
    assert abs(values.std().item() * 64**0.5 - 1) < 0.05
    other = load_backbone(backbone.source, heads=2)
    attach(other, "soft_prompts", length=64, seed=1)
    assert not torch.equal(values, torch.cat([p.detach().flatten() for p in adapter_of(other).prompts]))


def test_soft_prompts_leave_rotary_patches_where_they_are(tmp_path: Path):
    """With prompts whose keys nobody looks at, nothing changes: the patches keep their positions."""
    from oracles.random_vit import FAMILY_CONFIGS
    from transformers import AutoModel

    AutoModel.from_config(FAMILY_CONFIGS["dinov3"]()).save_pretrained(tmp_path)
    backbone = load_backbone(tmp_path, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    images = torch.randn(2, 3, 32, 32)
    before = backbone.attention_maps(images, 0)
    attach(backbone, "soft_prompts", length=2)
    after = backbone.attention_maps(images, 0)
    kept = torch.cat([after[..., :1], after[..., 3:]], -1)
    kept = torch.cat([kept[..., :1, :], kept[..., 3:, :]], -2)
    kept = kept / kept.sum(-1, keepdim=True)
    assert relative_error(kept, before) <= 1e-5


@pytest.mark.parametrize(
    ("options", "names"),
    [({}, ("q_proj", "k_proj")), ({"targets": ["value", "query"]}, ("q_proj", "v_proj"))],
    ids=["query and key", "query and value"],
)
def test_lora_adds_its_product_to_the_projections(checkpoint_file: Path, backbone: Backbone, tensors, options, names):
    images = torch.randn(2, 3, 32, 32)
    frozen = load_backbone(checkpoint_file, heads=2)(images)
    assert torch.equal(attach(backbone, "lora", rank=3, alpha=6.0, **options)(images), frozen)
    assert relative_error(detach(backbone)(images), frozen) == 0
    disturbed(backbone, "lora", rank=3, alpha=6.0, **options)
    pairs = adapter_of(backbone).pairs
    assert sum(p.numel() for p in pairs.values()) == 2 * 2 * (3 * 64 + 64 * 3)
    changed = {name: tensor.clone() for name, tensor in tensors.items()}
    for layer in range(2):
        for name in names:
            row = ("q_proj", "k_proj", "v_proj").index(name)
            product = pairs[f"{layer}_{name}_B"].detach() @ pairs[f"{layer}_{name}_A"].detach()
            changed[f"blocks.{layer}.attn.qkv.weight"][64 * row : 64 * row + 64] += 2.0 * product
    assert relative_error(backbone(images), literal_network(changed, images)[:, 0]) <= 1e-5
    assert relative_error(merge(backbone)(images), backbone(images)) <= 1e-5


def test_lora_wants_a_target(backbone: Backbone):
    with pytest.raises(InputError, match="targets is"):
        attach(backbone, "lora", targets=[])


def test_lora_starts_the_same_for_the_same_seed_and_leaves_the_global_stream_alone(checkpoint_file: Path):
    starts = []
    for seed in (0, 0, 1):
        backbone = attach(load_backbone(checkpoint_file, heads=2), "lora", seed=seed)
        starts.append(torch.cat([p.detach().flatten() for p in adapter_of(backbone).parameters()]))
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])
    torch.manual_seed(0)
    attach(load_backbone(checkpoint_file, heads=2), "lora")
    state_after = torch.random.get_rng_state()
    torch.manual_seed(0)
    load_backbone(checkpoint_file, heads=2)
    assert torch.equal(state_after, torch.random.get_rng_state())
