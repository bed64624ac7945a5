"""X W_q C in every order against the literal einsum, gradients included."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.adapters import query_projection
from cplsr.adapters.query_projection import QueryProjection, fold, multiply_tokens


def literal_scores(x, weight, bias, C, keys):
    """einsum('bhni,hij,bhmj->bhnm', q, C, k) of METHOD, head by head and index by index."""
    heads, d_k, _ = C.shape
    q = (x @ weight.T + bias).unflatten(-1, (heads, d_k)).transpose(1, 2)
    return torch.einsum("bhni,hij,bhmj->bhnm", q, C, keys)


def project_query(x, weight, bias, C):
    return QueryProjection(weight, bias, C)(x)


def make(heads=3, d_k=4, dim=12, batch=2, rows=5, seed=0, near=0.3, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, rows, dim, generator=g, dtype=dtype)
    weight = torch.randn(heads * d_k, dim, generator=g, dtype=dtype)
    bias = torch.randn(heads * d_k, generator=g, dtype=dtype)
    C = torch.eye(d_k, dtype=dtype) + near * torch.randn(heads, d_k, d_k, generator=g, dtype=dtype)
    return x, weight, bias, C


@given(st.integers(1, 4), st.sampled_from([1, 2, 5]), st.integers(0, 50))
@settings(max_examples=25, deadline=None)
def test_scores_are_those_of_the_literal_product(heads, d_k, seed):
    x, weight, bias, C = make(heads, d_k, dim=7, seed=seed)
    keys = torch.randn(2, heads, 5, d_k, dtype=torch.float64)
    expected = literal_scores(x, weight, bias, C, keys)
    for query in (project_query(x, weight, bias, C), multiply_tokens(x @ weight.T + bias, C)):
        scores = query.unflatten(-1, (heads, d_k)).transpose(1, 2) @ keys.mT
        torch.testing.assert_close(scores, expected, rtol=1e-10, atol=1e-10)


def test_the_transposed_matrix_gives_something_else():
    x, weight, bias, C = make()
    keys = torch.randn(2, 3, 5, 4, dtype=torch.float64)
    right = literal_scores(x, weight, bias, C, keys)
    wrong = project_query(x, weight, bias, C.mT.contiguous()).unflatten(-1, (3, 4)).transpose(1, 2) @ keys.mT
    assert (right - wrong).abs().max() > 0.1


@pytest.mark.parametrize("needs_x", [True, False])
@pytest.mark.parametrize("with_bias", [True, False])
def test_the_custom_backward_passes_gradcheck(needs_x, with_bias):
    x, weight, bias, C = make()
    x.requires_grad_(needs_x)
    C.requires_grad_()
    assert query_projection._inverse_if_well_conditioned(C.detach()) is not None
    assert torch.autograd.gradcheck(lambda x, C: project_query(x, weight, bias if with_bias else None, C), (x, C))


@pytest.mark.parametrize("heads", [2, 5])
@pytest.mark.parametrize("spoil", ["singular", "badly conditioned", "nan"])
def test_an_ill_conditioned_matrix_falls_back_to_plain_autograd(heads, spoil):
    x, weight, bias, C = make(heads=heads, d_k=4, dim=8)
    if spoil == "singular":
        C[0, 0] = 0
    elif spoil == "badly conditioned":
        C[0, 0] = C[0, 1] * (1 + 1e-6)
    else:
        C[0, 0, 0] = torch.nan
    assert query_projection._inverse_if_well_conditioned(C) is None
    if spoil != "nan":
        C.requires_grad_()
        x.requires_grad_()
        assert torch.autograd.gradcheck(lambda x, C: project_query(x, weight, bias, C), (x, C))


def test_float32_gradients_of_all_orders_agree():
    x, weight, bias, C = make(heads=3, d_k=16, dim=48, batch=8, rows=17, dtype=torch.float32, near=0.05)
    direction = torch.randn(8, 17, 48)
    gradients = []
    for run in (
        lambda C: project_query(x, weight, bias, C),
        lambda C: multiply_tokens(torch.nn.functional.linear(x, weight, bias), C),
        lambda C: torch.nn.functional.linear(x, *fold(weight, bias, C)),
    ):
        leaf = C.clone().requires_grad_()
        (run(leaf) * direction).sum().backward()
        gradients.append(leaf.grad)
    for other in gradients[1:]:
        assert (gradients[0] - other).abs().max() <= 1e-5 * other.abs().max()


def test_identity_is_the_frozen_projection_bit_for_bit():
    x, weight, bias, _ = make(dtype=torch.float32)
    identity = torch.eye(4).repeat(3, 1, 1)
    frozen = torch.nn.functional.linear(x, weight, bias)
    assert torch.equal(project_query(x, weight, bias, identity), frozen)
    assert torch.equal(project_query(x, weight, bias, identity.requires_grad_()), frozen)


def test_short_weights_are_folded_in_the_precision_of_the_matrix():
    _, weight, bias, C = make(dtype=torch.float32)
    folded, folded_bias = fold(weight.bfloat16(), bias.bfloat16(), C)
    exact, exact_bias = fold(weight.bfloat16().float(), bias.bfloat16().float(), C)
    assert torch.equal(folded, exact.bfloat16())
    assert torch.equal(folded_bias, exact_bias.bfloat16())
