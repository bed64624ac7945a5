"""What holds for every kind of adapter on every family of backbones."""

from pathlib import Path

import pytest
import torch
from oracles.closeness import relative_error

from cplsr import attach, detach, load_backbone, merge
from cplsr.adapters.attach import adapter_of
from cplsr.adapters.base import Shape
from cplsr.adapters.kinds import KINDS, make_adapter
from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError

OPTIONS = {"attention_temperature": {"adapter": "residual", "class_token_blocks": 1}}
"""Without an adapter to carry this kind has nothing that learns."""
KINDS_THAT_START_FROZEN = ["coalescent", "attn_scale", "residual", "lora"]
VIT_S = Shape(layers=12, heads=6, head_dim=64, dim=384, tokens=197, rotary=False)


def trainable(backbone: Backbone) -> list[torch.nn.Parameter]:
    return [parameter for parameter in backbone.parameters() if parameter.requires_grad]


def disturb(backbone: Backbone, scale: float = 0.1) -> None:
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in trainable(backbone):
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator))


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("kind", KINDS_THAT_START_FROZEN)
def test_at_the_start_the_model_is_the_frozen_one(family_folder: Path, kind):
    backbone = load_backbone(family_folder)
    images = torch.randn(3, 3, 32, 32)
    frozen = backbone(images)
    assert attach(backbone, kind) is backbone
    assert relative_error(backbone(images), frozen) <= 2e-6
    if kind in ("coalescent", "residual"):
        with torch.no_grad():
            assert torch.equal(backbone(images), frozen)


def test_gradients_reach_every_parameter_of_the_adapter_and_nothing_else(family_folder: Path, kind):
    backbone = attach(load_backbone(family_folder), kind, **OPTIONS.get(kind, {}))
    disturb(backbone)
    (backbone(torch.randn(3, 3, 32, 32)) @ torch.randn(64)).sum().backward()
    own = list(adapter_of(backbone).parameters())
    assert {id(p) for p in trainable(backbone)} == {id(p) for p in own}
    assert len(own) > 0
    for parameter in own:
        assert parameter.grad is not None
        assert parameter.grad.abs().max() > 0
    assert all(p.grad is None for p in backbone.parameters() if not p.requires_grad)


def test_a_training_step_changes_only_the_adapter(backbone: Backbone, kind):
    frozen = {name: tensor.clone() for name, tensor in backbone.model.state_dict().items()}
    attach(backbone, kind, **OPTIONS.get(kind, {}))
    before = [parameter.clone() for parameter in trainable(backbone)]
    optimizer = torch.optim.AdamW(trainable(backbone), lr=0.1)
    for _ in range(2):  # LoRA's A moves only once B has
        optimizer.zero_grad()
        (backbone(torch.randn(3, 3, 32, 32)) @ torch.randn(64)).sum().backward()
        optimizer.step()
    assert all(not torch.equal(old, new) for old, new in zip(before, trainable(backbone), strict=True))
    detach(backbone)
    after = backbone.model.state_dict()
    assert after.keys() == frozen.keys()
    assert all(torch.equal(after[name], tensor) for name, tensor in frozen.items())


def test_detaching_gives_the_frozen_model_back(family_folder: Path, kind):
    backbone = load_backbone(family_folder)
    images = torch.randn(3, 3, 32, 32)
    frozen, modules = backbone(images), [name for name, _ in backbone.named_modules()]
    attach(backbone, kind, **OPTIONS.get(kind, {}))
    disturb(backbone)
    assert relative_error(backbone(images), frozen) > 1e-4
    assert detach(backbone) is backbone
    assert torch.equal(backbone(images), frozen)
    assert [name for name, _ in backbone.named_modules()] == modules
    assert trainable(backbone) == []
    attach(backbone, kind, **OPTIONS.get(kind, {}))


@pytest.mark.parametrize("kind", ["coalescent", "residual", "lora"])
def test_merging_gives_the_same_embeddings_without_an_adapter(family_folder: Path, kind):
    backbone = load_backbone(family_folder)
    modules = [name for name, _ in backbone.named_modules()]
    images = torch.randn(3, 3, 32, 32)
    attach(backbone, kind)
    disturb(backbone)
    adapted = backbone(images).detach()
    if backbone.rotary and kind == "coalescent":
        with pytest.raises(InputError, match="rotates"):
            merge(backbone)
        return
    merged = merge(backbone)
    assert relative_error(merged(images), adapted) <= 1e-5
    assert relative_error(merged.model(images).last_hidden_state[:, 0], adapted) <= 1e-5
    assert merged.adapter is None
    assert trainable(merged) == []
    assert [name for name, _ in merged.named_modules()] == modules
    assert merged.fingerprint != backbone.fingerprint
    assert torch.equal(backbone(images), adapted)
    assert adapter_of(backbone).kind == kind


@pytest.mark.parametrize("kind", ["attn_scale", "soft_prompts"])
def test_what_cannot_be_merged_says_so(backbone: Backbone, kind):
    attach(backbone, kind)
    with pytest.raises(InputError, match="cannot be merged"):
        merge(backbone)


def test_merging_nothing_and_attaching_twice_are_errors(backbone: Backbone):
    with pytest.raises(InputError, match="no adapter"):
        merge(backbone)
    attach(backbone, "residual")
    with pytest.raises(InputError, match="'residual' adapter already"):
        attach(backbone, "coalescent")
    assert adapter_of(backbone).kind == "residual"


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_the_class_token_alone_in_the_last_block_is_exact(checkpoint_file: Path, kind, pooling):
    """The shortcut of the last block against the same adapter with all rows computed."""
    backbone = attach(load_backbone(checkpoint_file, heads=2, pooling=pooling), kind, **OPTIONS.get(kind, {}))
    disturb(backbone)
    images = torch.randn(3, 3, 32, 32)
    tokens, rotation = backbone._start(images)
    steps = backbone._steps()
    for layer in range(backbone.layers):
        tokens = steps.block(layer, tokens, rotation, rows=None)
    tokens = backbone.model.layernorm(tokens)
    expected = tokens[:, 0] if pooling == "cls" else tokens[:, -16:].mean(1)
    assert relative_error(backbone(images), expected) <= 1e-5


@pytest.mark.parametrize(
    ("kind", "options", "count"),
    [
        ("coalescent", {}, 294_912),
        ("coalescent", {"sharing": "shared"}, 49_152),
        ("coalescent", {"constraint": "mahalanobis"}, 294_912),
        ("attn_scale", {}, 2_794_248),
        ("soft_prompts", {"length": 4}, 12 * 4 * 384),
        ("residual", {}, 2 * 12 * 384),
        ("attention_temperature", {}, 0),
        ("attention_temperature", {"adapter": "coalescent"}, 294_912),
    ],
)
def test_parameter_counts_on_a_vit_s(kind, options, count):
    adapter = make_adapter(kind, VIT_S, options)
    assert sum(parameter.numel() for parameter in adapter.parameters()) == count


def test_attn_scale_has_nine_and_a_half_times_the_parameters():
    assert round(2_794_248 / 294_912, 1) == 9.5


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("coalescant", {}, "did you mean 'coalescent'"),
        ("nothing", {}, "give one of"),
        ("coalescent", {"sharring": "shared"}, "did you mean 'sharing'"),
        ("coalescent", {"sharing": "all"}, "'per_head' or 'shared'"),
        ("coalescent", {"constraint": "tight"}, "'free' or 'mahalanobis'"),
        ("coalescent", {"init": "zero"}, "'identity' or 'near_identity'"),
        ("coalescent", {"layers": (0, 7)}, r"layers \[7\] do not exist"),
        ("soft_prompts", {"length": 0}, "length is 0: give a whole number of at least 1"),
        ("soft_prompts", {"mode": "prepend"}, "'accumulate' or 'replace'"),
        ("attention_temperature", {"temperature": -1}, "temperature is -1: give a number of at least 0"),
        ("attention_temperature", {"adapter": "cp"}, "no adapter kind 'cp'"),
        ("attention_temperature", {"adapter": "lora", "adapter_options": {"rnk": 1}}, "did you mean 'rank'"),
        ("lora", {"rank": 0}, "rank is 0: give a whole number of at least 1"),
        ("residual", {"size": 1}, "'residual' has an unknown option 'size': there are none"),
    ],
)
def test_wrong_names_get_a_sentence(backbone: Backbone, kind, options, words):
    with pytest.raises(InputError, match=words):
        attach(backbone, kind, **options)
    assert backbone.adapter is None


def test_every_kind_works_in_bf16(checkpoint_file: Path, kind):
    if kind == "full":
        with pytest.raises(InputError, match="--precision fp32"):
            attach(load_backbone(checkpoint_file, heads=2, precision="bf16"), kind)
        return
    backbone = attach(load_backbone(checkpoint_file, heads=2, precision="bf16"), kind, **OPTIONS.get(kind, {}))
    assert all(parameter.dtype == torch.float32 for parameter in trainable(backbone))
    disturb(backbone, 0.02)
    exact = attach(load_backbone(checkpoint_file, heads=2), kind, **OPTIONS.get(kind, {}))
    disturb(exact, 0.02)
    images = torch.randn(3, 3, 32, 32)
    assert torch.cosine_similarity(backbone(images), exact(images)).min() > 0.999
    (backbone(images) @ torch.randn(64)).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in trainable(backbone))


def test_gradients_in_bf16_are_near_those_in_fp32(checkpoint_file: Path):
    images, direction = torch.randn(8, 3, 32, 32), torch.randn(64)
    gradients = []
    for precision in ("fp32", "bf16"):
        backbone = attach(load_backbone(checkpoint_file, heads=2, precision=precision), "coalescent")
        (backbone(images) @ direction).sum().backward()
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in trainable(backbone)]))
    assert torch.cosine_similarity(*gradients, dim=0) > 0.99


def test_taking_off_a_trained_whole_backbone_brings_the_old_weights_back(checkpoint_file: Path):
    backbone = load_backbone(checkpoint_file, heads=2)
    before = backbone.weights_fingerprint()
    attach(backbone, "full")
    with torch.no_grad():
        for parameter in backbone.adapter.parameters():
            parameter += 0.1
    images = torch.randn(2, 3, 32, 32)
    changed = backbone(images).detach()
    merged = merge(backbone)
    detach(backbone)
    assert backbone.weights_fingerprint() == before
    assert merged.weights_fingerprint() != before
    assert relative_error(merged(images), changed) < 1e-5
    assert not any(parameter.requires_grad for parameter in backbone.parameters())
