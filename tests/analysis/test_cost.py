"""Counting of cost against formulas."""

import pytest
import torch

from cplsr import attach, detach, load_backbone
from cplsr.adapters.base import Shape
from cplsr.adapters.kinds import make_adapter
from cplsr.analysis.cost import VARIANTS, cost_rows, draw_cost, fitting_sizes, forward_flops
from cplsr.errors import InputError

NAMES = list(VARIANTS)


def attach_variant(backbone, name):
    """Puts a variant on the backbone; gives its kind and options."""
    kind, options = VARIANTS[name] or (None, {})
    if kind is not None:
        attach(backbone, kind, **options)
    return kind, options


def flops_by_formula(backbone, kind, images, prompts=0):
    """Patch embedding, then every block: query and output projection 4·r·D², key and value 4·n·D², Q Kᵀ and its product
    with V 4·r·n·D, MLP 2·r per weight, of r rows that are computed and n tokens; layer l has p·(l+1) prompts more.
    AttnScale multiplies r·n factors in each head. C is folded into the query projection once per pass, weights and
    bias; behind a rotary position it acts on every query."""
    dim, head_dim, heads = backbone.dim, backbone.dim // backbone.heads, backbone.heads
    mlp_weights = sum(weight.numel() for weight in backbone.blocks[0].mlp.parameters() if weight.ndim == 2)
    patches = (backbone.image_size // backbone.patch_size) ** 2
    per_image = 2 * patches * 3 * backbone.patch_size**2 * dim
    per_pass = 0
    for layer in range(backbone.layers):
        tokens = backbone.prefix + patches + prompts * (layer + 1)
        rows = 1 if backbone.pooling == "cls" and layer == backbone.layers - 1 else tokens
        per_image += 4 * (rows + tokens) * dim**2 + 4 * rows * tokens * dim + 2 * rows * mlp_weights
        if kind == "attn_scale":
            per_image += heads * rows * tokens
        if kind == "coalescent" and backbone.rotary:
            per_image += 2 * rows * dim * head_dim
        elif kind == "coalescent":
            per_pass += 2 * dim * head_dim * (dim + 1)
    return images * per_image + per_pass


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize(("size", "images"), [(32, 1), (48, 3)])
def test_operations_that_are_counted_are_those_of_the_formulas(checkpoint_file, name, pooling, size, images):
    backbone = load_backbone(checkpoint_file, size, heads=2, pooling=pooling)
    kind, options = attach_variant(backbone, name)
    wanted = flops_by_formula(backbone, kind, images, options.get("length", 0))
    assert forward_flops(backbone, images) == wanted


@pytest.mark.parametrize("name", ["frozen", "coalescent"])
def test_operations_hold_for_every_family(family_folder, name):
    backbone = load_backbone(family_folder)
    kind, _ = attach_variant(backbone, name)
    biases = [block.attention.q_proj.bias is not None for block in backbone.blocks]
    assert all(biases)
    assert forward_flops(backbone, 2) == flops_by_formula(backbone, kind, 2)


def test_the_papers_numbers_of_parameters():
    vit_small = Shape(layers=12, heads=6, head_dim=64, dim=384, tokens=197, rotary=False)
    counts = {
        name: sum(weight.numel() for weight in make_adapter(variant[0], vit_small, variant[1]).parameters())
        for name, variant in VARIANTS.items()
        if variant is not None
    }
    assert counts["coalescent"] == 294_912
    assert counts["coalescent shared"] == 49_152
    assert counts["attn_scale"] == 2_794_248
    assert counts["soft_prompts 8"] == 36_864


def test_only_attn_scale_grows_with_the_image_and_only_prompts_and_it_with_every_image(backbone):
    few, many = (cost_rows(backbone, sizes=(32, 64), images=images, repetitions=0) for images in (1, 2))
    frozen = {row.image_size: row.flops for row in few if row.adapter == "frozen"}
    for name, variant in VARIANTS.items():
        small, large = (row for row in few if row.adapter == name)
        kind = None if variant is None else variant[0]
        assert (large.parameters > small.parameters) == (kind == "attn_scale")
        assert (large.parameters == 0) == (kind is None)
        more = [next(row.flops for row in rows if (row.adapter, row.image_size) == (name, 64)) for rows in (few, many)]
        each, of_two = (count - frozen[64] for count in more)
        assert (of_two == each) == (kind != "coalescent")


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
    assert rows[0].flops == flops_by_formula(backbone, None, 1)


def test_an_adapter_on_the_backbone_is_refused_before_timing(backbone):
    attach(backbone, "residual")
    with pytest.raises(InputError, match="detach"):
        cost_rows(backbone, sizes=(32,), repetitions=1)
    detach(backbone)


def test_what_does_not_fit_into_memory_has_no_time(backbone, monkeypatch):
    from cplsr.backbones.backbone import Backbone

    forward = Backbone.forward

    def full(self, images, *rest):
        if getattr(self.adapter, "kind", None) == "attn_scale" and not images.is_meta:
            raise torch.OutOfMemoryError("full")
        return forward(self, images, *rest)

    monkeypatch.setattr(Backbone, "forward", full)
    rows = cost_rows(backbone, sizes=(32,), images=1, repetitions=1)
    assert {row.adapter for row in rows if row.seconds is None} == {"attn_scale"}
