import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.errors import InputError
from cplsr.reservation.symmetric import Triangle, cholesky_factor, log_determinant


def symmetric(dim: int, seed: int) -> torch.Tensor:
    matrix = torch.randn(dim, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return matrix + matrix.T


@given(dim=st.integers(1, 9), seed=st.integers(0, 100))
@settings(deadline=None, max_examples=40)
def test_packing_keeps_every_bit_of_a_symmetric_matrix(dim, seed):
    matrix, triangle = symmetric(dim, seed), Triangle(dim)
    packed = triangle.pack(matrix)
    assert packed.shape == (dim * (dim + 1) // 2,)
    assert torch.equal(triangle.unpack(packed), matrix)
    assert torch.equal(packed[triangle.diagonal], matrix.diagonal())
    torch.testing.assert_close(triangle.trace(packed), matrix.trace(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(triangle.squared_norm(packed), matrix.square().sum(), rtol=1e-12, atol=1e-12)


def test_packing_does_not_read_above_the_diagonal():
    matrix = symmetric(4, 0)
    expected = Triangle(4).pack(matrix)
    assert torch.equal(Triangle(4).pack(matrix + torch.full((4, 4), torch.nan).triu(1).nan_to_num(7.0)), expected)


def test_trace_of_many():
    matrices = [symmetric(5, seed) for seed in range(3)]
    triangle = Triangle(5)
    packed = torch.stack([triangle.pack(matrix) for matrix in matrices])
    torch.testing.assert_close(triangle.trace(packed), torch.stack([matrix.trace() for matrix in matrices]))


def test_log_determinant_where_the_determinant_underflows():
    matrix = torch.eye(400, dtype=torch.float64) * 1e-3
    assert torch.linalg.det(matrix) == 0
    factor = cholesky_factor(matrix, "it")
    torch.testing.assert_close(log_determinant(factor), torch.linalg.slogdet(matrix).logabsdet, rtol=1e-13, atol=0)


@pytest.mark.parametrize("entry", [-1.0, 0.0, float("nan"), float("inf")])
def test_a_matrix_without_a_factor_is_named(entry):
    matrix = torch.eye(3, dtype=torch.float64)
    matrix[1, 1] = entry
    with pytest.raises(InputError, match="the covariance of class 7 is not positive definite"):
        cholesky_factor(matrix, "the covariance of class 7")


def test_no_dimensions():
    with pytest.raises(InputError, match="dimension is 0"):
        Triangle(0)
