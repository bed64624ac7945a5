"""Symmetric matrices kept as half a square, and their Cholesky factors."""

from __future__ import annotations

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from cplsr.errors import InputError


class Triangle:
    """The lower triangle of `dim` × `dim` matrices, row after row: d(d+1)/2 numbers in place of d².

    Nothing is rounded: unpacking what was packed gives back every bit of a symmetric matrix. Half the memory is worth
    the 0.25 ms that unpacking takes at d = 384. Matrices go one at a time because gathering along the rows of a larger
    table is several times slower.
    """

    def __init__(self, dim: int) -> None:
        if dim < 1:
            raise InputError(f"the embedding dimension is {dim}: it must be at least 1")
        self.dim = dim
        self.size = dim * (dim + 1) // 2
        rows, columns = torch.tril_indices(dim, dim)
        self._lower: Int64[Tensor, "packed"] = rows * dim + columns
        number = torch.arange(dim)
        high, low = torch.maximum(number[:, None], number), torch.minimum(number[:, None], number)
        self._square: Int64[Tensor, "square"] = (high * (high + 1) // 2 + low).reshape(-1)
        self.diagonal: Int64[Tensor, "dim"] = number * (number + 3) // 2

    def pack(self, matrix: Float64[Tensor, "dim dim"]) -> Float64[Tensor, "packed"]:
        """The lower triangle of a matrix; what stands above the diagonal is not read."""
        return matrix.reshape(-1).index_select(0, self._lower)

    def unpack(self, packed: Float64[Tensor, "packed"]) -> Float64[Tensor, "dim dim"]:
        """The symmetric matrix with this lower triangle."""
        return packed.index_select(0, self._square).view(self.dim, self.dim)

    def trace(self, packed: Float64[Tensor, "*classes packed"]) -> Float64[Tensor, "*classes"]:
        """Sum of the diagonal."""
        return packed[..., self.diagonal].sum(-1)

    def squared_norm(self, packed: Float64[Tensor, "packed"]) -> Float64[Tensor, ""]:
        """Squared Frobenius norm: what stands off the diagonal counts twice."""
        return 2 * packed.square().sum() - packed[self.diagonal].square().sum()


def cholesky_factor(matrix: Float64[Tensor, "dim dim"], what: str) -> Float64[Tensor, "dim dim"]:
    """The lower Cholesky factor; `what` names the matrix where it is not positive definite or not finite."""
    factor, failed_at = torch.linalg.cholesky_ex(matrix)
    if failed_at.item() != 0 or not torch.isfinite(factor.diagonal()).all():
        raise InputError(
            f"{what} is not positive definite in float64: raise the ridge, or take more images or "
            "shrinkage='ledoit_wolf'"
        )
    return factor


def log_determinant(factor: Float64[Tensor, "*matrices dim dim"]) -> Float64[Tensor, "*matrices"]:
    """ln|L Lᵀ| from the Cholesky factor L: a determinant itself would leave float64's range long before d = 384."""
    return 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
