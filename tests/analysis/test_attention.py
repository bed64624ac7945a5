"""Attention of all layers in one pass, and its entropy."""

import math

import pytest
import torch

from cplsr import attach, load_backbone
from cplsr.analysis.attention import attention_entropy, cls_attention, entropy, visit_attention
from cplsr.errors import InputError

ADAPTERS = {
    "frozen": None,
    "coalescent": ("coalescent", {"init": "near_identity"}),
    "attn_scale": ("attn_scale", {"residual": True}),
    "soft_prompts": ("soft_prompts", {"length": 3}),
    "attention_temperature": ("attention_temperature", {"adapter": "attn_scale", "class_token_blocks": 1}),
}


@pytest.fixture(params=sorted(ADAPTERS))
def adapted(request, backbone):
    if ADAPTERS[request.param] is not None:
        kind, options = ADAPTERS[request.param]
        attach(backbone, kind, **options)
        generator = torch.Generator().manual_seed(0)
        for parameter in backbone.adapter.parameters():
            parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return backbone


def images(count=3, size=32):
    return torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def test_one_pass_shows_what_a_pass_for_each_layer_gives(adapted):
    seen = {}
    visit_attention(adapted, images(), lambda layer, maps: seen.__setitem__(layer, maps))
    assert sorted(seen) == [0, 1]
    for layer, maps in seen.items():
        torch.testing.assert_close(maps, adapted.attention_maps(images(), layer), rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(maps.sum(-1), torch.ones_like(maps[..., 0]))


def test_it_holds_for_every_family_of_models(family_folder):
    backbone = load_backbone(family_folder)
    seen = {}
    visit_attention(backbone, images(2), lambda layer, maps: seen.__setitem__(layer, maps))
    for layer in (0, 1):
        torch.testing.assert_close(seen[layer], backbone.attention_maps(images(2), layer), rtol=1e-4, atol=1e-6)


def test_the_adapter_is_back_in_its_place_even_after_an_error(adapted):
    adapter, before = adapted.adapter, adapted(images())

    def fail(layer, maps):
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        visit_attention(adapted, images(), fail)
    assert adapted.adapter is adapter
    assert torch.equal(adapted(images()), before)


def test_entropy_is_the_literal_sum():
    maps = torch.tensor([[0.5, 0.25, 0.25, 0.0], [1.0, 0.0, 0.0, 0.0], [0.25] * 4])
    expected = [-sum(a * math.log(a) for a in row if a > 0) for row in maps.tolist()]
    torch.testing.assert_close(entropy(maps), torch.tensor(expected))
    assert entropy(maps.bfloat16()).dtype == torch.float32


def test_mean_entropies_over_images_heads_and_rows(adapted):
    pixels = images(11)  # more than go through at a time
    result = attention_entropy(adapted, pixels)
    for layer in (0, 1):
        maps = adapted.attention_maps(pixels, layer).double()
        for head in range(adapted.heads):
            rows = [[-sum(a * math.log(a) for a in row if a > 0) for row in image[head].tolist()] for image in maps]
            cls = sum(image[0] for image in rows) / len(rows)
            every = sum(sum(image) / len(image) for image in rows) / len(rows)
            assert result.cls[layer, head].item() == pytest.approx(cls, rel=1e-4)
            assert result.rows[layer, head].item() == pytest.approx(every, rel=1e-4)
        assert (result.rows[layer] <= math.log(maps.shape[-1]) + 1e-6).all()


def test_no_images_have_no_entropy(backbone):
    with pytest.raises(InputError, match="no images"):
        attention_entropy(backbone, images(0))


def test_the_class_tokens_map_has_the_layout_of_the_image(adapted):
    pixels = images(10)
    maps = cls_attention(adapted, pixels, layer=0)
    assert maps.shape == (10, 2, 4, 4)
    row = adapted.attention_maps(pixels, 0)[:, :, 0]
    for y in range(4):
        for x in range(4):
            torch.testing.assert_close(maps[:, :, y, x], row[:, :, row.shape[-1] - 16 + 4 * y + x])
