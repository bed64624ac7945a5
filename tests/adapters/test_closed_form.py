"""The closed form of Eq. 4 against its expanded text, and what its residual says."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr import attach, coalescent_from_update, load_backbone, merge
from cplsr.errors import InputError


def literal(W_q, W_k, dW_q, dW_k):
    """Eq. 4 as printed: C = I + ΔW_kᵀ(W_kᵀ)† + W_q†ΔW_q + W_q†ΔW_q ΔW_kᵀ(W_kᵀ)†, W of shape (D, d_k)."""
    pinv = torch.linalg.pinv
    identity = torch.eye(W_q.shape[1], dtype=W_q.dtype)
    right = dW_k.T @ pinv(W_k.T)
    left = pinv(W_q) @ dW_q
    return identity + right + left + left @ right


def weights(seed=0, dim=9, d_k=4, scale=0.3):
    g = torch.Generator().manual_seed(seed)
    W_q, W_k = (torch.randn(d_k, dim, generator=g, dtype=torch.float64) for _ in range(2))
    dW_q, dW_k = (scale * torch.randn(d_k, dim, generator=g, dtype=torch.float64) for _ in range(2))
    return W_q, W_k, dW_q, dW_k


@given(st.integers(0, 500), st.integers(2, 6))
@settings(max_examples=30, deadline=None)
def test_it_is_the_printed_formula(seed, d_k):
    W = weights(seed, dim=2 * d_k, d_k=d_k)
    C, residual = coalescent_from_update(*W)
    torch.testing.assert_close(C, literal(*(w.T for w in W)), rtol=1e-9, atol=1e-9)
    W_q, W_k, dW_q, dW_k = (w.T for w in W)
    wanted = (W_q + dW_q) @ (W_k + dW_k).T
    missed = (W_q @ C @ W_k.T - wanted).norm() / (wanted - W_q @ W_k.T).norm()
    torch.testing.assert_close(residual, missed, rtol=1e-9, atol=1e-9)


def test_no_other_matrix_comes_nearer():
    W_q, W_k, dW_q, dW_k = weights()
    C, _ = coalescent_from_update(W_q, W_k, dW_q, dW_k)
    wanted = (W_q + dW_q).T @ (W_k + dW_k)
    best = (W_q.T @ C @ W_k - wanted).norm()
    for seed in range(20):
        other = C + 1e-3 * torch.randn(4, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        assert (W_q.T @ other @ W_k - wanted).norm() > best


def test_an_update_inside_the_span_is_exact_and_one_outside_is_not():
    W_q, W_k, dW_q, dW_k = weights()
    mix = torch.randn(4, 4, dtype=torch.float64)
    inside = coalescent_from_update(W_q, W_k, mix @ W_q, mix.T @ W_k)
    assert inside.residual < 1e-10
    assert 0 < coalescent_from_update(W_q, W_k, dW_q, dW_k).residual < 1


def test_no_update_is_the_identity():
    W_q, W_k, _, _ = weights()
    C, residual = coalescent_from_update(W_q, W_k, torch.zeros_like(W_q), torch.zeros_like(W_k))
    torch.testing.assert_close(C, torch.eye(4, dtype=torch.float64))
    assert residual == 0


def test_biases_are_one_more_row_of_w():
    W_q, W_k, dW_q, dW_k = weights()
    b_q, b_k, db_q, db_k = torch.randn(4, 4, dtype=torch.float64)
    with_biases = coalescent_from_update(W_q, W_k, dW_q, dW_k, b_q=b_q, b_k=b_k, db_q=db_q, db_k=db_k)
    rows = [torch.cat([w, b[:, None]], 1) for w, b in ((W_q, b_q), (W_k, b_k), (dW_q, db_q), (dW_k, db_k))]
    torch.testing.assert_close(with_biases.C, coalescent_from_update(*rows).C)
    missing = coalescent_from_update(W_q, W_k, dW_q, dW_k, b_q=b_q)  # the others count as zero
    zeros = torch.zeros(4, dtype=torch.float64)
    given = coalescent_from_update(W_q, W_k, dW_q, dW_k, b_q=b_q, b_k=zeros, db_q=zeros, db_k=zeros)
    torch.testing.assert_close(missing.C, given.C)


def test_a_whole_layer_is_its_heads_one_by_one():
    W_q, W_k, dW_q, dW_k = weights(dim=9, d_k=8)
    layer = coalescent_from_update(W_q, W_k, dW_q, dW_k, heads=2)
    assert layer.C.shape == (2, 4, 4)
    assert layer.residual.shape == (2,)
    for head in range(2):
        part = slice(4 * head, 4 * head + 4)
        C, residual = coalescent_from_update(W_q[part], W_k[part], dW_q[part], dW_k[part])
        torch.testing.assert_close(layer.C[head], C)
        torch.testing.assert_close(layer.residual[head], residual)


def test_shapes_that_do_not_belong_together_get_a_sentence():
    W_q, W_k, dW_q, dW_k = weights()
    with pytest.raises(InputError):
        coalescent_from_update(W_q, W_k, dW_q[:, :5], dW_k)
    with pytest.raises(InputError, match="divide"):
        coalescent_from_update(W_q, W_k, dW_q, dW_k, heads=3)


def test_a_merged_projection_is_recovered(checkpoint_file):
    """Fold a C into W_q, then ask for the C of that update: it comes back, with nothing left over."""
    backbone = attach(load_backbone(checkpoint_file, heads=2), "coalescent")
    for parameter in backbone.parameters():
        if parameter.requires_grad:
            parameter.data += 0.1 * torch.randn_like(parameter)
    merged = merge(backbone)
    for layer, (old, new) in enumerate(zip(backbone.blocks, merged.blocks, strict=True)):
        q, k, changed = old.attention.q_proj, old.attention.k_proj, new.attention.q_proj
        result = coalescent_from_update(
            q.weight,
            k.weight,
            changed.weight - q.weight,
            torch.zeros_like(k.weight),
            b_q=q.bias,
            db_q=changed.bias - q.bias,
            b_k=k.bias,
            heads=2,
        )
        assert result.residual.max() < 1e-4
        torch.testing.assert_close(result.C, backbone.adapter.C[str(layer)], rtol=1e-3, atol=1e-4)
