"""One Gaussian for every base class: means, covariances and what is summed over all classes (Eq. 5-6)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from jaxtyping import Float64
from torch import Tensor

from cplsr.declared import fit
from cplsr.errors import InputError
from cplsr.reservation.moments import ClassMoments
from cplsr.reservation.symmetric import cholesky_factor, log_determinant
from cplsr.settings.training import Ridge, Shrinkage
from cplsr.tensor_file import read_tensors, write_tensors

KIND = "cplsr class statistics 1"


@dataclass(frozen=True, eq=False)
class ClassGaussians:
    """N(μ_k, Σ_k) of every base class k (Eq. 5-6), the ridge εI added to each Σ_k once.

    A covariance is not stored but read off the class's scatter matrix, Σ_k = scale_k · scatter_k + shift_k · I, so
    that all shrinkages and ridges share one set of moments: `none` is the unbiased covariance, `ledoit_wolf` the
    Ledoit-Wolf estimate, which moves the population covariance towards a multiple of I. The moments are shared, not
    copied: do not update them afterwards.

    The sums that the base-novel criterion needs are made here, once: `log_determinant` = ℓ = Σ_k ln|Σ_k| and `factor`,
    the Cholesky factor of G = Σ_k (Σ_k + m_k m_kᵀ), where m_k = μ_k − `center` and `center` is the mean of the μ_k.
    """

    moments: ClassMoments
    shrinkage: Shrinkage
    ridge: float
    scale: Float64[Tensor, "classes"] = field(repr=False)
    shift: Float64[Tensor, "classes"] = field(repr=False)
    center: Float64[Tensor, "dim"] = field(repr=False)
    factor: Float64[Tensor, "dim dim"] = field(repr=False)
    log_determinant: float

    @classmethod
    def from_moments(
        cls, moments: ClassMoments, *, shrinkage: Shrinkage = "none", ridge: float = 1e-3
    ) -> ClassGaussians:
        """Gaussians of classes with at least two embeddings each; warns where there are no more than dimensions."""
        fit(shrinkage, Shrinkage, "shrinkage")
        fit(ridge, Ridge, "ridge")
        _check_moments(moments)
        scale, shift = _scale_and_shift(moments, shrinkage)
        _warn_of_small_classes(moments, shrinkage, ridge)
        shift = shift + ridge
        center = moments.means.mean(0)
        centered = moments.means - center
        total = centered.T @ centered
        log_determinants = []
        for label in range(moments.classes):
            covariance = _covariance(moments, label, scale[label], shift[label])
            total += covariance
            log_determinants.append(log_determinant(cholesky_factor(covariance, f"the covariance of class {label}")))
        factor = cholesky_factor(total, "the sum of all covariances")
        return cls(moments, shrinkage, ridge, scale, shift, center, factor, float(torch.stack(log_determinants).sum()))

    @property
    def means(self) -> Float64[Tensor, "classes dim"]:
        """μ_k (Eq. 5)."""
        return self.moments.means

    def moved(self, shifts: Float64[Tensor, "classes dim"]) -> ClassGaussians:
        """The same Gaussians about other means; their covariances, and with them ℓ, stay."""
        means = self.means + shifts
        center = means.mean(0)
        before, after = self.means - self.center, means - center
        total = self.factor @ self.factor.T - before.T @ before + after.T @ after
        moments = ClassMoments.from_tensors(
            {**self.moments.tensors(), "means": means}, statistics=self.moments.statistics
        )
        factor = cholesky_factor(total, "the sum of all covariances")
        return replace(self, moments=moments, center=center, factor=factor)

    def covariance(self, label: int) -> Float64[Tensor, "dim dim"]:
        """Σ_k (Eq. 6) of one class, shrunk as asked and with the ridge."""
        return _covariance(self.moments, label, self.scale[label], self.shift[label])

    def save(self, path: Path | str) -> None:
        """Write everything to one safetensors file, whole or not at all, with a checksum."""
        sums = {"scale": self.scale, "shift": self.shift, "center": self.center, "factor": self.factor}
        options = {"statistics": self.moments.statistics, "shrinkage": self.shrinkage, "ridge": self.ridge}
        options["log_determinant"] = self.log_determinant
        write_tensors(path, {**self.moments.tensors(), **sums}, options, kind=KIND)

    @classmethod
    def load(cls, path: Path | str) -> ClassGaussians:
        """Read what `save` wrote, bit for bit; raises `DamagedFileError` where the file was changed."""
        tensors, options = read_tensors(path, kind=KIND)
        return cls(
            moments=ClassMoments.from_tensors(tensors, statistics=options["statistics"]),
            shrinkage=options["shrinkage"],
            ridge=options["ridge"],
            log_determinant=options["log_determinant"],
            **{name: tensors[name] for name in ("scale", "shift", "center", "factor")},
        )


def ledoit_wolf_intensity(moments: ClassMoments) -> Float64[Tensor, "classes"]:
    """The Ledoit-Wolf shrinkage intensity ρ_k of every class, from its moments alone.

    With S = scatter / n, the population covariance, and m = tr(S)/d: ρ = min(β, δ)/δ, where δ = ‖S − mI‖²_F and
    β = (Σ_i ‖y_i‖⁴ / n − ‖S‖²_F) / n is the part of δ that is sampling noise.
    """
    triangle = moments.triangle
    if moments.dim == 1:
        return torch.zeros(moments.classes, dtype=torch.float64)  # S is a multiple of I already
    intensities = []
    for label in range(moments.classes):
        part = moments.of(label)
        squared = triangle.squared_norm(part.scatter) / part.count**2
        level = triangle.trace(part.scatter) / (part.count * moments.dim)
        noise = (part.fourth / part.count - squared).clamp(min=0) / part.count
        distance = squared - moments.dim * level.square()
        intensities.append(noise / distance if 0 < noise < distance else (noise > 0).double())
    return torch.stack(intensities)


def _scale_and_shift(moments: ClassMoments, shrinkage: Shrinkage) -> tuple[Tensor, Tensor]:
    """What makes scatter matrices covariances: of the unbiased estimate, or of that by Ledoit and Wolf."""
    if shrinkage == "none":
        scale = 1 / (moments.counts - 1).double()
        return scale, torch.zeros_like(scale)
    intensity = ledoit_wolf_intensity(moments)
    level = moments.triangle.trace(moments.scatter) / (moments.counts * moments.dim)
    return (1 - intensity) / moments.counts, intensity * level


def _covariance(
    moments: ClassMoments, label: int, scale: Float64[Tensor, ""], shift: Float64[Tensor, ""]
) -> Float64[Tensor, "dim dim"]:
    matrix = moments.triangle.unpack(moments.scatter[label]) * scale
    matrix.diagonal().add_(shift)
    return matrix


def _check_moments(moments: ClassMoments) -> None:
    if moments.classes < 2:
        raise InputError("statistics of one class were given: pseudo-classes are mixed from at least 2")
    fewest = int(moments.counts.argmin())
    if moments.counts[fewest] < 2:
        raise InputError(
            f"class {fewest} has {int(moments.counts[fewest])} embeddings; a covariance needs at least 2: "
            "add images or leave the class out"
        )
    for name, tensor in moments.tensors().items():
        # A sum is finite only if all entries are, and takes no memory; finite entries whose sum overflows are as bad.
        if not torch.isfinite(tensor.sum()):
            raise InputError(f"the embeddings are too large for float64 (their {name} overflow): rescale them")


def _warn_of_small_classes(moments: ClassMoments, shrinkage: str, ridge: float) -> None:
    small = int((moments.counts <= moments.dim).sum())
    if small == 0:
        return
    cure = f"the ridge {ridge:g} (shrinkage='ledoit_wolf' or more images help)" if shrinkage == "none" else shrinkage
    warnings.warn(
        f"{small} of {moments.classes} classes have no more embeddings (fewest: {int(moments.counts.min())}) than "
        f"dimensions ({moments.dim}): their covariances have full rank only by {cure}",
        stacklevel=3,
    )
