"""Formulas of cost against counting."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from cplsr import attach, detach, load_backbone
from cplsr.analysis.cost import (
    VARIANTS,
    Architecture,
    Variant,
    adapter_parameters,
    cost_rows,
    draw_cost,
    fitting_sizes,
    forward_flops,
)
from cplsr.errors import InputError

NAMES = [variant.name for variant in VARIANTS]


def count_factors(a_shape, b_shape, *rest, out_shape=None, **more):
    """Multiplications of one tensor by another, entry by entry; by a plain number they are no affair of the adapter."""
    by_one_tensor_for_all_images = isinstance(b_shape, torch.Size) and (len(a_shape), len(b_shape)) == (4, 3)
    return out_shape.numel() if by_one_tensor_for_all_images else 0


def counted(backbone, images):
    pixels = torch.randn(images, 3, backbone.image_size, backbone.image_size)
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.mul: count_factors})
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        backbone(pixels)
    return counter.get_total_flops()


@pytest.mark.parametrize("variant", VARIANTS, ids=NAMES)
@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize(("size", "images"), [(32, 1), (48, 3)])
def test_operations_and_parameters_are_what_is_counted(checkpoint_file, variant, pooling, size, images):
    backbone = load_backbone(checkpoint_file, size, heads=2, pooling=pooling)
    model = Architecture.of(backbone)
    if variant.kind is not None:
        attach(backbone, variant.kind, **variant.options)
    trainable = sum(parameter.numel() for parameter in backbone.parameters() if parameter.requires_grad)
    assert adapter_parameters(model, variant, size) == trainable
    assert forward_flops(model, variant, size, images) == counted(backbone, images)


@pytest.mark.parametrize("variant", [Variant("frozen"), Variant("coalescent", "coalescent")], ids=["frozen", "CP"])
def test_operations_hold_for_every_family(family_folder, variant):
    backbone = load_backbone(family_folder)
    model = Architecture.of(backbone)
    if variant.kind is not None:
        attach(backbone, variant.kind, **variant.options)
    biases = [block.attention.q_proj.bias is not None for block in backbone.blocks]
    assert all(biases)
    assert forward_flops(model, variant, 32, 2) == counted(backbone, 2)


def test_the_papers_numbers_of_parameters():
    vit_small = Architecture(
        layers=12, heads=6, dim=384, mlp_weights=2 * 384 * 1536, patch_size=16, prefix=1, rotary=False,
        class_row_only=True,
    )  # fmt: skip
    counts = {variant.name: adapter_parameters(vit_small, variant, 224) for variant in VARIANTS}
    assert counts["frozen"] == 0
    assert counts["coalescent"] == 294_912
    assert counts["coalescent shared"] == 49_152
    assert counts["attn_scale"] == 2_794_248
    assert counts["soft_prompts 8"] == 36_864


def test_only_attn_scale_grows_with_the_image_and_only_prompts_and_it_with_every_image(backbone):
    model = Architecture.of(backbone)
    for variant in VARIANTS:
        small, large = (adapter_parameters(model, variant, size) for size in (32, 64))
        assert (large > small) == (variant.kind == "attn_scale")
        more = [forward_flops(model, variant, 64, n) - forward_flops(model, VARIANTS[0], 64, n) for n in (1, 10)]
        assert (more[1] == more[0]) == (variant.kind in (None, "coalescent"))


def test_sizes_are_those_that_patches_fill():
    assert fitting_sizes(16) == (112, 224, 384, 448)
    assert fitting_sizes(14) == (112, 224, 378, 448)
    assert fitting_sizes(200) == (200, 400)


def test_the_table_has_a_row_for_each_and_the_backbone_is_left_alone(backbone, tmp_path):
    fingerprint = backbone.fingerprint
    rows = cost_rows(backbone, sizes=(32, 48), images=2, repetitions=1)
    assert [(row.adapter, row.image_size) for row in rows] == [(name, size) for name in NAMES for size in (32, 48)]
    assert [row.tokens for row in rows[:2]] == [17, 37]
    assert all(row.seconds > 0 for row in rows)
    assert backbone.adapter is None
    assert backbone.image_size == 32
    assert backbone.weights_fingerprint() == fingerprint
    draw_cost(rows, tmp_path / "cost.png")
    assert (tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")


def test_without_repetitions_nothing_is_timed(backbone):
    rows = cost_rows(backbone, sizes=(32,), repetitions=0)
    assert {row.seconds for row in rows} == {None}
    model = Architecture.of(backbone)
    assert rows[0].flops == forward_flops(model, VARIANTS[0], 32)


def test_an_adapter_on_the_backbone_is_refused_before_timing(backbone):
    attach(backbone, "residual")
    with pytest.raises(InputError, match="detach"):
        cost_rows(backbone, sizes=(32,), repetitions=1)
    detach(backbone)


def test_what_does_not_fit_into_memory_has_no_time(backbone, monkeypatch):
    from cplsr.backbones.backbone import Backbone

    forward = Backbone.forward

    def full(self, images, *rest):
        if getattr(self.adapter, "kind", None) == "attn_scale":
            raise torch.OutOfMemoryError("full")
        return forward(self, images, *rest)

    monkeypatch.setattr(Backbone, "forward", full)
    rows = cost_rows(backbone, sizes=(32,), images=1, repetitions=1)
    assert {row.adapter for row in rows if row.seconds is None} == {"attn_scale"}
