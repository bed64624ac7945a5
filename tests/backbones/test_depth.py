"""Depth embeddings against transformers' hidden states and against the tokens that literal networks give."""

from pathlib import Path

import pytest
import torch
from oracles.closeness import relative_error
from oracles.functional_vit import vit
from oracles.random_vit import random_checkpoint
from safetensors.torch import load_file, save_file

from cplsr import attach, merge
from cplsr.backbones.backbone import Backbone
from cplsr.backbones.load import load_backbone
from cplsr.errors import InputError


def joined(normed: list[torch.Tensor], patches: int) -> torch.Tensor:
    """c_1/‖c_1‖, m_1/‖m_1‖, c_2/‖c_2‖ … of normed tokens, written out."""
    parts = []
    for tokens in normed:
        for part in (tokens[:, 0], tokens[:, tokens.shape[1] - patches :].sum(1) / patches):
            parts.append(part / part.square().sum(1, keepdim=True).sqrt())
    return torch.cat(parts, 1)


def hidden_states(backbone: Backbone, images: torch.Tensor) -> list[torch.Tensor]:
    """Transformers' own tokens after every block, after the final norm; those after the last one come normed."""
    output = backbone.model(images, output_hidden_states=True)
    norm = backbone.model.get_submodule(backbone.family.final_norm)
    assert len(output.hidden_states) == backbone.layers + 1
    return [*(norm(tokens) for tokens in output.hidden_states[1:-1]), output.last_hidden_state]


@torch.inference_mode()
def test_every_family_agrees_with_the_hidden_states_of_transformers(family_folder: Path):
    backbone = load_backbone(family_folder, 48, pooling="depth")
    images = torch.randn(3, 3, 48, 48)
    normed = hidden_states(backbone, images)
    assert (backbone.dim, backbone.embedding_dim, backbone.pooled_layers) == (64, 2 * 2 * 64, (0, 1))
    assert relative_error(backbone(images), joined(normed, 36)) <= 1e-5
    for layers, read in (((0,), normed[:1]), ((-1,), normed[1:]), ((1, -2, 0), normed)):
        chosen = load_backbone(family_folder, 48, pooling="depth", layers=layers)
        assert chosen.embedding_dim == 2 * 64 * len(read)
        assert relative_error(chosen(images), joined(read, 36)) <= 1e-5


@torch.inference_mode()
def test_the_formulas_in_float64(tmp_path: Path):
    tensors = random_checkpoint(dim=64, layers=3, patch=8, image=32)
    save_file(tensors, tmp_path / "vit_some.safetensors")
    backbone = load_backbone(tmp_path / "vit_some.safetensors", pooling="depth").double()
    images = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    double = {name: tensor.double() for name, tensor in tensors.items()}
    parts = []
    for count in (1, 2, 3):
        shorter = {name: t for name, t in double.items() if not any(f"blocks.{i}." in name for i in range(count, 3))}
        for pooling in ("cls", "mean"):
            part = vit(shorter, images, 1, pooling=pooling)
            parts.append(part / part.norm(dim=1, keepdim=True))
    assert relative_error(backbone(images), torch.cat(parts, 1)) <= 1e-10


def disturbed(backbone: Backbone, kind: str, **options) -> Backbone:
    attach(backbone, kind, **options)
    generator = torch.Generator().manual_seed(3)
    for parameter in backbone.adapter.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return backbone


PROMPTS = [("soft_prompts", {"mode": mode, "length": 3}) for mode in ("accumulate", "replace")]


@pytest.mark.parametrize(
    ("kind", "options"),
    [("coalescent", {}), ("attn_scale", {}), ("residual", {}), ("lora", {}), *PROMPTS],
    ids=lambda value: value if isinstance(value, str) else value.get("mode", ""),
)
@torch.inference_mode()
def test_with_an_adapter_only_patches_are_in_the_mean(checkpoint_file: Path, kind, options):
    """The first block's tokens as they are seen on their way into the second; the second's by the other poolings."""
    images, entered = torch.randn(2, 3, 32, 32), {}
    frozen = load_backbone(checkpoint_file, heads=2, pooling="depth")
    depth, cls, mean = (
        disturbed(load_backbone(checkpoint_file, heads=2, pooling=pooling), kind, **options)
        for pooling in ("depth", "cls", "mean")
    )
    last = [cls(images), mean(images, between=lambda layer, tokens: entered.setdefault(layer, tokens))]
    first = frozen.model.layernorm(entered[1])
    assert first.shape[1] == 17 + (3 if kind == "soft_prompts" else 0)
    embeddings = depth(images)
    assert relative_error(embeddings[:, :128], joined([first], 16)) <= 1e-5
    assert relative_error(embeddings[:, 128:], torch.cat([x / x.norm(dim=1, keepdim=True) for x in last], 1)) <= 1e-5
    assert relative_error(embeddings, frozen(images)) > 1e-3


def test_a_merged_adapter_reads_the_same_depth(checkpoint_file: Path):
    backbone = disturbed(load_backbone(checkpoint_file, heads=2, pooling="depth", layers=[0]), "coalescent")
    images = torch.randn(2, 3, 32, 32)
    merged = merge(backbone)
    assert merged.embedding_dim == 128
    assert relative_error(merged(images), backbone(images)) <= 1e-5


def test_checkpointing_and_cutting_a_batch_change_nothing(checkpoint_file: Path, monkeypatch):
    backbone = attach(load_backbone(checkpoint_file, heads=2, pooling="depth"), "coalescent", init="near_identity")
    images, direction = torch.randn(7, 3, 32, 32), torch.randn(256)
    results = []
    for cache_bytes, backbone.checkpointing in ((1 << 40, False), (1 << 40, True), (3 * 4 * 64 * 17 * 4, False)):
        monkeypatch.setattr("cplsr.backbones.backbone.CACHE_BYTES", cache_bytes)
        backbone.zero_grad()
        embeddings = backbone(images)
        (embeddings @ direction).sum().backward()
        results.append([embeddings.detach(), *(p.grad.clone() for p in backbone.parameters() if p.requires_grad)])
    for plain, checkpointed, cut in zip(*results, strict=True):
        assert torch.equal(plain, checkpointed)
        assert relative_error(cut, plain) <= 1e-5


def test_what_happens_between_blocks_is_in_all_that_follow(checkpoint_file: Path):
    backbone = load_backbone(checkpoint_file, heads=2, pooling="depth")
    images = torch.randn(2, 3, 32, 32)
    plain = backbone(images)
    changed = backbone(images, between=lambda layer, tokens: tokens * 2 if layer == 1 else tokens)
    assert torch.equal(changed[:, :128], plain[:, :128])
    assert relative_error(changed[:, 128:], plain[:, 128:]) > 1e-3


def test_blocks_behind_the_last_chosen_one_are_not_run(checkpoint_file: Path):
    entered = []
    backbone = load_backbone(checkpoint_file, heads=2, pooling="depth", layers=(0,))
    backbone(torch.randn(1, 3, 32, 32), between=lambda layer, tokens: entered.append(layer) or tokens)
    assert entered == [0]


def test_bf16_is_near_fp32_and_of_length_one(checkpoint_file: Path):
    images = torch.randn(4, 3, 32, 32)
    exact, short = (load_backbone(checkpoint_file, heads=2, pooling="depth", precision=p) for p in ("fp32", "bf16"))
    result = short(images)
    assert result.dtype == torch.float32
    assert torch.cosine_similarity(exact(images), result).min() > 0.999
    assert (result.unflatten(1, (4, 64)).norm(dim=-1) - 1).abs().max() < 1e-5


def test_the_description_names_the_blocks(checkpoint_file: Path):
    told = load_backbone(checkpoint_file, heads=2, pooling="depth", layers=(-1,)).description()
    assert (told["pooling"], told["pooled_layers"], told["layers"]) == ("depth", (1,), 2)
    assert "pooled_layers" not in load_backbone(checkpoint_file, heads=2).description()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"pooling": "deep"}, "pooling 'deep' is not known: give cls, mean or depth"),
        ({"pooling": "depth", "layers": (0, 2)}, r"layers \[2\] do not exist; the backbone has 2, counted from 0"),
        ({"pooling": "depth", "layers": (-3,)}, r"layers \[-3\] do not exist"),
        ({"pooling": "depth", "layers": ()}, "layers is empty"),
        ({"pooling": "cls", "layers": (1,)}, r"layers \[1\] were given with pooling cls: only depth"),
        ({"pooling": "mean", "layers": (1,)}, r"layers \[1\] were given with pooling mean: only depth"),
    ],
)
def test_what_cannot_be_read_gets_a_sentence(checkpoint_file: Path, options, sentence):
    with pytest.raises(InputError, match=sentence):
        load_backbone(checkpoint_file, heads=2, **options)


def test_a_backbone_without_a_class_token_gets_a_sentence(tmp_path: Path):
    from transformers import SiglipVisionConfig, SiglipVisionModel

    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    SiglipVisionModel(SiglipVisionConfig(**small, image_size=16, patch_size=8)).save_pretrained(tmp_path / "siglip")
    with pytest.raises(InputError, match="'siglip_vision_model'; the backbone must be a plain vision transformer"):
        load_backbone(tmp_path / "siglip", pooling="depth")
    tensors = random_checkpoint(dim=64, layers=1, patch=8, image=32)
    save_file({name: t for name, t in tensors.items() if name != "cls_token"}, tmp_path / "vit_gap.safetensors")
    with pytest.raises(InputError, match="the checkpoint lacks cls_token"):
        load_backbone(tmp_path / "vit_gap.safetensors", pooling="depth")


@pytest.mark.real_data
@torch.inference_mode()
def test_real_weights_agree_with_the_formulas(real_data: Path):
    file = real_data / "weights" / "vit_tiny_patch16_224.safetensors"
    images = torch.randn(2, 3, 112, 112)
    embeddings = load_backbone(file, 112, pooling="depth")(images).unflatten(1, (12, 2, 192))
    for row, pooling in enumerate(("cls", "mean")):
        last = vit(load_file(file), images, 3, pooling=pooling)
        assert relative_error(embeddings[:, -1, row], last / last.norm(dim=1, keepdim=True)) <= 1e-5
