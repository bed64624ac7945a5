"""The temperature of attention: against a network written out, alone and around other adapters."""

from pathlib import Path

import pytest
import torch
from oracles.closeness import relative_error
from oracles.functional_vit import literal_network
from safetensors.torch import load_file

from cplsr import attach, detach, load_adapter, load_backbone, merge, save_adapter
from cplsr.adapters.attach import adapter_of
from cplsr.adapters.attention_temperature import at_temperatures
from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError
from cplsr.export.to_onnx import export_onnx
from cplsr.export.to_transformers import export_transformers

KIND = "attention_temperature"
IMAGES = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def tensors(checkpoint_file: Path):
    return load_file(checkpoint_file)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize(
    ("temperature", "blocks", "attending"), [(0.3, 1, 1), (0.0, 2, 0), (2.5, 2, None), (0.3, 0, 2), (0.3, 7, 7)]
)
def test_logits_are_multiplied_and_the_class_token_is_hidden(
    checkpoint_file: Path, tensors, temperature, blocks, attending, pooling
):
    backbone = load_backbone(checkpoint_file, heads=2, pooling=pooling)
    attach(backbone, KIND, temperature=temperature, blocks=blocks, class_token_blocks=attending)

    def scores(layer, head, m):
        m = m * (temperature if layer < blocks else 1)
        if attending is not None and layer >= attending:
            m = m.clone()
            m[..., 0] = -torch.inf
        return m

    expected = literal_network(tensors, IMAGES, scores=scores)
    expected = expected[:, 0] if pooling == "cls" else expected[:, 1:].mean(1)
    assert relative_error(backbone(IMAGES), expected) <= 1e-5
    assert list(adapter_of(backbone).parameters()) == []
    maps = backbone.attention_maps(IMAGES)
    torch.testing.assert_close(maps.sum(-1), torch.ones_like(maps[..., 0]))
    assert (maps[..., 0] == 0).all() == (attending in (0, 1))


def test_the_published_switch_is_the_default():
    from cplsr.adapters.base import Shape
    from cplsr.adapters.kinds import make_adapter

    adapter = make_adapter(KIND, Shape(layers=12, heads=6, head_dim=64, dim=384, tokens=197, rotary=False), {})
    assert adapter.temperatures == [0.3] * 2 + [1.0] * 10
    assert adapter.attending == 5


@pytest.mark.parametrize("kind", ["coalescent", "attn_scale", "soft_prompts", "residual", "lora", "full"])
def test_a_carried_adapter_acts_as_alone_but_for_attention(checkpoint_file: Path, kind):
    alone = attach(load_backbone(checkpoint_file, heads=2), kind)
    inside = attach(load_backbone(checkpoint_file, heads=2), KIND, temperature=0.4, class_token_blocks=1, adapter=kind)
    stream = torch.Generator().manual_seed(4)
    pairs = zip(adapter_of(alone).parameters(), adapter_of(inside).parameters(), strict=True)
    with torch.no_grad():
        for one, other in pairs:
            other.add_(0.2 * torch.randn(one.shape, generator=stream))
            one.copy_(other)
    switched = alone(IMAGES, around=_switched)
    assert torch.equal(inside(IMAGES), switched)
    assert torch.equal(inside(IMAGES, around=lambda points: at_temperatures(points, [1.0, 1.0])), alone(IMAGES))
    assert relative_error(switched, alone(IMAGES)) > 1e-3
    if kind == "attn_scale":
        return
    inside.zero_grad()
    (inside(IMAGES) @ torch.randn(64)).sum().backward()
    assert all(parameter.grad is not None for parameter in adapter_of(inside).parameters())


def _switched(points):
    switched = at_temperatures(points, [0.4, 0.4])
    switched.attending = 1
    return switched


def test_a_temperature_is_a_coalescent_projection(checkpoint_file: Path):
    by_temperature = attach(load_backbone(checkpoint_file, heads=2), KIND, temperature=0.3, class_token_blocks=None)
    by_projection = attach(load_backbone(checkpoint_file, heads=2), "coalescent")
    with torch.no_grad():
        for C in adapter_of(by_projection).parameters():
            C.mul_(0.3)
    assert relative_error(by_temperature(IMAGES), by_projection(IMAGES)) <= 1e-5


@pytest.mark.parametrize("carried", [None, "coalescent", "residual", "lora", "full"])
def test_without_hiding_it_merges_on_every_family(family_folder: Path, carried):
    backbone = load_backbone(family_folder)
    if backbone.rotary and carried == "coalescent":
        return
    frozen = backbone(IMAGES)
    attach(backbone, KIND, class_token_blocks=None, adapter=carried)
    with torch.no_grad():
        for parameter in adapter_of(backbone).parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    adapted = backbone(IMAGES).detach()
    assert relative_error(merge(backbone)(IMAGES), adapted) <= 1e-5
    assert relative_error(adapted, frozen) > 1e-4
    assert torch.equal(detach(backbone)(IMAGES), frozen)


def test_hiding_the_class_token_cannot_be_merged_but_exported_as_a_graph(backbone: Backbone, tmp_path: Path):
    attach(backbone, KIND, class_token_blocks=1)
    with pytest.raises(InputError, match="'attention_temperature' has no equivalent"):
        merge(backbone)
    with pytest.raises(InputError, match=r"attention_temperature.*--to onnx"):
        export_transformers(backbone, tmp_path / "out")
    assert not export_onnx(backbone, tmp_path / "x.onnx").merged  # which compares the graph with the backbone


def test_without_parameters_it_is_stored_and_known_by_its_options(checkpoint_file: Path, tmp_path: Path):
    prints = set()
    for temperature in (0.3, 0.4):
        backbone = attach(load_backbone(checkpoint_file, heads=2), KIND, temperature=temperature)
        save_adapter(backbone, tmp_path / "a")
        other = load_adapter(load_backbone(checkpoint_file, heads=2), tmp_path / "a")
        assert torch.equal(other(IMAGES), backbone(IMAGES))
        assert other.adapter_fingerprint == backbone.adapter_fingerprint
        prints.add(backbone.adapter_fingerprint)
    assert len(prints) == 2


def test_attn_scale_says_that_it_has_no_factors_for_more_tokens(backbone: Backbone):
    attach(backbone, "attn_scale")
    with pytest.raises(InputError, match="attn_scale has factors for 17 tokens, but 18 are in block 0"):
        backbone(IMAGES, lambda layer, tokens: torch.cat([tokens, tokens[:, :1]], 1) if layer == 0 else tokens)
