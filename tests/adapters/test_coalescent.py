"""The coalescent projection against the functional transcription of Eq. 3, and its options."""

from pathlib import Path

import pytest
import torch
from oracles.closeness import relative_error
from oracles.functional_vit import vit
from safetensors.torch import load_file

from cplsr import attach, load_backbone, merge
from cplsr.adapters.attach import adapter_of
from cplsr.adapters.coalescent import Coalescent, symmetry_penalty
from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError


def coalescent(backbone: Backbone) -> Coalescent:
    adapter = adapter_of(backbone)
    assert isinstance(adapter, Coalescent)
    return adapter


def set_random(backbone: Backbone, seed: int = 3) -> list[torch.Tensor]:
    """Random, clearly non-symmetric matrices."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in coalescent(backbone).parameters():
        parameter.data = torch.eye(32) + 0.2 * torch.randn(parameter.shape, generator=generator)
    return [C.detach() for C in coalescent(backbone).projections().values()]


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("options", [{}, {"sharing": "shared"}, {"constraint": "mahalanobis"}])
def test_the_network_with_c_is_that_of_the_formula(checkpoint_file: Path, options, grad):
    backbone = attach(load_backbone(checkpoint_file, heads=2), "coalescent", **options)
    matrices = [C.expand(2, 32, 32) for C in set_random(backbone)]
    images = torch.randn(3, 3, 32, 32)
    tensors = load_file(checkpoint_file)
    with torch.set_grad_enabled(grad):
        embeddings = backbone(images)
    assert relative_error(embeddings, vit(tensors, images, 2, C=matrices)) <= 1e-5
    if not options:
        transposed = [C.mT for C in matrices]
        assert relative_error(embeddings, vit(tensors, images, 2, C=transposed)) > 1e-2


@pytest.mark.parametrize("sharing", ["per_head", "shared"])
def test_values_have_a_factor_of_their_own_and_merge(checkpoint_file: Path, sharing):
    backbone = attach(load_backbone(checkpoint_file, heads=2), "coalescent", values=True, sharing=sharing)
    C = [each.expand(2, 32, 32) for each in set_random(backbone)]
    D = [each.detach().expand(2, 32, 32) for each in coalescent(backbone).D.values()]
    images, tensors = torch.randn(3, 3, 32, 32), load_file(checkpoint_file)
    embeddings = backbone(images)
    assert relative_error(embeddings, vit(tensors, images, 2, C=C, D=D)) <= 1e-5
    assert relative_error(embeddings, vit(tensors, images, 2, C=C, D=[each.mT for each in D])) > 1e-2
    assert relative_error(merge(backbone)(images), embeddings) <= 1e-5
    attention = backbone.attention_maps(images, 0)
    assert torch.allclose(attention.sum(-1), torch.ones(()), atol=1e-5)
    (embeddings @ torch.randn(64)).sum().backward()
    assert all(bool(each.grad.abs().max() > 0) for each in coalescent(backbone).D.values())


def test_low_rank_is_the_identity_and_a_product_for_every_head(checkpoint_file: Path):
    frozen = load_backbone(checkpoint_file, heads=2)
    backbone = attach(load_backbone(checkpoint_file, heads=2), "coalescent", rank=3)
    images, tensors = torch.randn(3, 3, 32, 32), load_file(checkpoint_file)
    assert torch.equal(backbone(images), frozen(images))
    parameters = list(coalescent(backbone).parameters())
    assert [parameter.numel() for parameter in parameters] == [2 * 2 * 32 * 3] * 2
    matrices = []
    for parameter in parameters:
        parameter.data = 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(matrices)))
        C = torch.eye(32).repeat(2, 1, 1)
        for head in range(2):
            for column in range(3):
                C[head] += torch.outer(parameter[0, head, :, column], parameter[1, head, :, column]).detach()
        matrices.append(C)
    embeddings = backbone(images)
    assert relative_error(embeddings, vit(tensors, images, 2, C=matrices)) <= 1e-5
    assert relative_error(embeddings, vit(tensors, images, 2, C=[C.mT for C in matrices])) > 1e-2
    assert relative_error(merge(backbone)(images), embeddings) <= 1e-5
    (embeddings @ torch.randn(64)).sum().backward()
    assert all(bool((parameter.grad.abs().amax((1, 2, 3)) > 0).all()) for parameter in parameters)


@pytest.mark.parametrize("options", [{"constraint": "mahalanobis"}, {"init": "near_identity"}])
def test_low_rank_is_free_and_starts_at_the_identity(backbone: Backbone, options):
    with pytest.raises(InputError, match=f"rank is 3, with .*{next(iter(options.values()))}.*leave these out"):
        attach(backbone, "coalescent", rank=3, **options)


def test_gradients_are_those_of_the_formula(checkpoint_file: Path):
    backbone = attach(load_backbone(checkpoint_file, heads=2), "coalescent").double()
    matrices = [C.clone().requires_grad_() for C in set_random(backbone)]
    for parameter, C in zip(coalescent(backbone).parameters(), matrices, strict=True):
        parameter.data = parameter.data.double()
        C.data = C.data.double()
    matrices = [C.detach().double().requires_grad_() for C in matrices]
    images, direction = torch.randn(3, 3, 32, 32, dtype=torch.float64), torch.randn(64, dtype=torch.float64)
    (backbone(images) @ direction).sum().backward()
    tensors = {name: tensor.double() for name, tensor in load_file(checkpoint_file).items()}
    (vit(tensors, images, 2, C=matrices) @ direction).sum().backward()
    for parameter, C in zip(coalescent(backbone).parameters(), matrices, strict=True):
        assert relative_error(parameter.grad, C.grad) <= 1e-9


def test_behind_a_rotary_position_c_acts_after_the_rotation(tmp_path: Path):
    """Attention maps of the adapted model against R(Q) C R(K)ᵀ built from transformers' own rotation."""
    from oracles.random_vit import FAMILY_CONFIGS
    from transformers import AutoModel
    from transformers.models.dinov3_vit.modeling_dinov3_vit import apply_rotary_pos_emb

    AutoModel.from_config(FAMILY_CONFIGS["dinov3"]()).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="normalized"):
        backbone = attach(load_backbone(tmp_path), "coalescent")
    matrices = set_random(backbone)
    images = torch.randn(2, 3, 32, 32)
    block = backbone.blocks[0]
    x = block.norm_before(backbone.model.embeddings(images))
    q, k = (p(x).unflatten(-1, (2, 32)).transpose(1, 2) for p in (block.attention.q_proj, block.attention.k_proj))
    q, k = apply_rotary_pos_emb(q, k, *backbone.model.rope_embeddings(images))
    expected = (q @ matrices[0] @ k.mT / 32**0.5).softmax(-1)
    assert relative_error(backbone.attention_maps(images, 0), expected) <= 1e-5


@pytest.mark.parametrize("sharing", ["per_head", "shared"])
def test_one_tensor_per_layer_in_layer_order(backbone: Backbone, sharing):
    attach(backbone, "coalescent", sharing=sharing)
    parameters = [p for p in backbone.parameters() if p.requires_grad]
    heads = 1 if sharing == "shared" else 2
    assert [tuple(p.shape) for p in parameters] == [(heads, 32, 32)] * 2
    assert all(torch.equal(p, torch.eye(32).expand(heads, -1, -1)) for p in parameters)


def test_a_subset_of_layers(backbone: Backbone):
    attach(backbone, "coalescent", layers=[-1])
    assert list(coalescent(backbone).projections()) == [1]
    images = torch.randn(2, 3, 32, 32)
    first, last = (backbone.attention_maps(images, layer) for layer in (0, 1))
    set_random(backbone)
    assert torch.equal(backbone.attention_maps(images, 0), first)
    assert relative_error(backbone.attention_maps(images, 1), last) > 1e-2


def test_near_identity_has_a_diagonal_of_ones_and_small_noise(backbone: Backbone):
    attach(backbone, "coalescent", init="near_identity", seed=4)
    matrices = torch.stack([C.detach() for C in coalescent(backbone).projections().values()])
    assert torch.equal(matrices.diagonal(dim1=-2, dim2=-1), torch.ones(2, 2, 32))
    noise = matrices[..., ~torch.eye(32, dtype=torch.bool)]
    assert 0.018 < noise.std().item() < 0.022


def test_mahalanobis_stays_positive_semi_definite_and_symmetric(backbone: Backbone):
    attach(backbone, "coalescent", constraint="mahalanobis")
    for C in set_random(backbone):
        assert torch.allclose(C, C.mT)
        assert torch.linalg.eigvalsh(C).min() >= -1e-5
    assert coalescent(backbone).symmetry_penalty().item() == pytest.approx(0, abs=1e-6)


def test_attention_with_c_is_not_softmax_of_the_distance():
    """−½ d² keeps −½ kᵀCk, which the softmax over keys does not remove."""
    q, k = torch.randn(4, 8), torch.randn(6, 8)
    C = torch.eye(8) * 0.5
    bilinear = (q @ C @ k.T).softmax(-1)
    squared = 0.5 * (q[:, None] - k).square().sum(-1)
    assert (bilinear - (-0.5 * squared).softmax(-1)).abs().max() > 1e-3


def test_symmetry_penalty_is_the_literal_sum():
    C = torch.randn(3, 5, 5)
    literal = sum((C[h, i, j] - C[h, j, i]) ** 2 for h in range(3) for i in range(5) for j in range(5))
    torch.testing.assert_close(symmetry_penalty(C), literal)


@pytest.mark.parametrize("constraint", ["free", "mahalanobis"])
def test_what_is_too_far_from_the_identity_goes_back_straight_and_no_further(backbone, constraint):
    adapter = attach(backbone, "coalescent", constraint=constraint).adapter
    torch.manual_seed(0)
    with torch.no_grad():
        for C in adapter.C.values():
            C[0] += 0.1 * torch.randn_like(C[0])
            C[1] += 1e-4 * torch.randn_like(C[1])
    stored = {layer: C.detach().clone() for layer, C in adapter.C.items()}
    before = {layer: C.detach().clone() for layer, C in adapter.projections().items()}
    adapter.bound(0.5)
    identity = torch.eye(32)
    for layer, C in adapter.projections().items():
        assert torch.equal(adapter.C[str(layer)][1], stored[str(layer)][1])
        away = before[layer][0] - identity
        assert away.norm() > 1
        assert torch.allclose(C[0], identity + 0.5 * away / away.norm(), atol=1e-5)


def test_low_rank_is_bounded_by_its_product(backbone: Backbone):
    adapter = coalescent(attach(backbone, "coalescent", rank=3))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for UV in adapter.C.values():
            UV[1, 0] += torch.randn(32, 3, generator=generator)
            UV[1, 1] += 1e-4
    before = {layer: C.detach().clone() for layer, C in adapter.projections().items()}
    adapter.bound(0.5)
    identity = torch.eye(32)
    for layer, C in adapter.projections().items():
        away = before[layer][0] - identity
        assert away.norm() > 1
        assert torch.allclose(C[0], identity + 0.5 * away / away.norm(), atol=1e-5)
        assert torch.equal(C[1], before[layer][1])
