import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.gaussians import covariances, gaussians_of
from sklearn.covariance import ledoit_wolf

from cplsr.errors import InputError
from cplsr.reservation.moments import ClassMoments
from cplsr.reservation.statistics import ClassGaussians, ledoit_wolf_intensity
from cplsr.tensor_file import DamagedFileError

small_classes = pytest.mark.filterwarnings("ignore:.*classes have no more embeddings")


def clouds(seed: int, sizes: tuple[int, ...] = (30, 20, 25), dim: int = 4):
    generator = torch.Generator().manual_seed(seed)
    parts = [
        torch.randn(size, dim, generator=generator, dtype=torch.float64)
        @ torch.randn(dim, dim, generator=generator, dtype=torch.float64)
        + 3 * torch.randn(dim, generator=generator, dtype=torch.float64)
        for size in sizes
    ]
    labels = torch.cat([torch.full((size,), k) for k, size in enumerate(sizes)])
    order = torch.randperm(len(labels), generator=generator)
    return torch.cat(parts)[order], labels[order]


def literal_mean_and_covariance(embeddings: torch.Tensor, ridge: float):
    """Eq. 5-6 as they are written, plus the ridge."""
    count, dim = embeddings.shape
    mean = torch.zeros(dim, dtype=torch.float64)
    for x in embeddings:
        mean = mean + x
    mean = mean / count
    covariance = torch.zeros(dim, dim, dtype=torch.float64)
    for x in embeddings:
        covariance = covariance + torch.outer(x - mean, x - mean)
    return mean, covariance / (count - 1) + ridge * torch.eye(dim, dtype=torch.float64)


@given(seed=st.integers(0, 1000), ridge=st.sampled_from([0.0, 1e-3, 1.0]))
@settings(deadline=None, max_examples=30)
def test_means_and_covariances(seed, ridge):
    embeddings, labels = clouds(seed)
    gaussians = gaussians_of(embeddings, labels, ridge=ridge)
    assert gaussians.moments.counts.tolist() == [30, 20, 25]
    assert (gaussians.moments.classes, gaussians.moments.dim) == (3, 4)
    for k in range(3):
        mean, covariance = literal_mean_and_covariance(embeddings[labels == k], ridge)
        torch.testing.assert_close(gaussians.means[k], mean, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(gaussians.covariance(k), covariance, rtol=1e-12, atol=1e-12)


def test_the_ridge_is_added_once():
    embeddings, labels = clouds(0)
    with_ridge, without = (gaussians_of(embeddings, labels, ridge=ridge) for ridge in (0.5, 0.0))
    expected = covariances(without) + 0.5 * torch.eye(4, dtype=torch.float64)
    torch.testing.assert_close(covariances(with_ridge), expected, rtol=1e-14, atol=1e-14)


def test_sums_over_classes():
    gaussians = gaussians_of(*clouds(5))
    center = sum(gaussians.means) / 3
    total, log_determinant = torch.zeros(4, 4, dtype=torch.float64), 0.0
    for k in range(3):
        m = gaussians.means[k] - center
        total += gaussians.covariance(k) + torch.outer(m, m)
        log_determinant += float(torch.linalg.slogdet(gaussians.covariance(k)).logabsdet)
    torch.testing.assert_close(gaussians.factor @ gaussians.factor.T, total, rtol=1e-12, atol=1e-12)
    assert gaussians.log_determinant == pytest.approx(log_determinant, rel=1e-12)


@small_classes
@given(seed=st.integers(0, 1000), size=st.integers(2, 40), dim=st.sampled_from([1, 2, 4, 12]))
@settings(deadline=None, max_examples=60)
def test_shrinkage_is_that_of_sklearn(seed, size, dim):
    embeddings, labels = clouds(seed, sizes=(size, size + 3), dim=dim)
    gaussians = gaussians_of(embeddings, labels, shrinkage="ledoit_wolf", ridge=1e-3)
    intensities = ledoit_wolf_intensity(gaussians.moments)
    for k in range(2):
        covariance, intensity = ledoit_wolf(embeddings[labels == k].numpy())
        expected = torch.from_numpy(covariance) + 1e-3 * torch.eye(dim, dtype=torch.float64)
        assert float(intensities[k]) == pytest.approx(intensity, rel=1e-9, abs=1e-12)
        torch.testing.assert_close(gaussians.covariance(k), expected, rtol=1e-10, atol=1e-10)


@small_classes
@pytest.mark.parametrize("shrinkage", ["none", "ledoit_wolf"])
def test_identical_embeddings_leave_the_ridge_alone(shrinkage):
    gaussians = gaussians_of(torch.ones(6, 3), torch.arange(6) % 2, shrinkage=shrinkage)
    torch.testing.assert_close(covariances(gaussians), 1e-3 * torch.eye(3, dtype=torch.float64).expand(2, 3, 3))


@given(seed=st.integers(0, 1000), cut=st.integers(12, 60))
@settings(deadline=None, max_examples=30)
@small_classes
@pytest.mark.parametrize("shrinkage", ["none", "ledoit_wolf"])
@pytest.mark.parametrize("statistics", ["raw", "normalized"])
def test_two_halves_merge_into_the_whole(statistics, shrinkage, seed, cut):
    embeddings, _ = clouds(seed)
    labels = torch.arange(75) % 3
    whole = gaussians_of(embeddings, labels, statistics=statistics, shrinkage=shrinkage)
    one, other = (ClassMoments(3, embeddings.shape[1], statistics=statistics) for _ in range(2))
    one.update(embeddings[:cut], labels[:cut])
    other.update(embeddings[cut:], labels[cut:])
    one.merge(other)
    merged = ClassGaussians.from_moments(one, shrinkage=shrinkage)
    torch.testing.assert_close(merged.means, whole.means, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(covariances(merged), covariances(whole), rtol=1e-10, atol=1e-10)
    assert other.counts.sum() == 75 - cut, "what was merged stays as it was"


def test_one_warning_names_the_count_of_small_classes():
    embeddings, labels = clouds(0, sizes=(4, 5, 3), dim=4)
    with pytest.warns(
        UserWarning, match=r"2 of 3 classes .* \(fewest: 3\) than dimensions \(4\).* ridge 0.001"
    ) as seen:
        gaussians_of(embeddings, labels)
    assert len(seen) == 1
    with pytest.warns(UserWarning, match="2 of 3 classes .* only by ledoit_wolf"):
        gaussians_of(embeddings, labels, shrinkage="ledoit_wolf")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gaussians_of(*clouds(0, sizes=(5, 6, 7), dim=4))


@small_classes
def test_what_cannot_be_a_gaussian_is_refused():
    embeddings, labels = clouds(0)
    with pytest.raises(InputError, match="class 2 has 0 embeddings"):
        gaussians_of(embeddings, labels + (labels == 2))
    with pytest.raises(InputError, match="at least 2"):
        gaussians_of(embeddings, labels * 0)
    for ridge in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="ridge is"):
            gaussians_of(embeddings, labels, ridge=ridge)
    with pytest.raises(InputError, match=r"covariance of class 0 is not positive definite.*raise the ridge"):
        gaussians_of(torch.ones(6, 3), torch.arange(6) % 2, ridge=0.0)
    with pytest.raises(InputError, match="too large for float64"):
        gaussians_of(embeddings * 1e200, labels)


@given(exponent=st.integers(-300, 300))
@settings(deadline=None, max_examples=60)
@small_classes
def test_any_scale_works_or_is_refused(exponent):
    embeddings, labels = clouds(1)
    try:
        gaussians = gaussians_of(embeddings * 10.0**exponent, labels)
    except InputError:
        assert exponent > 5, "small embeddings always go through the ridge"
        return
    assert torch.isfinite(covariances(gaussians)).all()
    assert torch.isfinite(gaussians.factor).all()


@pytest.mark.parametrize("shrinkage", ["none", "ledoit_wolf"])
def test_saved_statistics_come_back_bit_for_bit(tmp_path, shrinkage):
    gaussians = gaussians_of(*clouds(2), statistics="normalized", shrinkage=shrinkage, ridge=0.1)
    path = tmp_path / "new" / "statistics.safetensors"
    gaussians.save(path)
    assert [file.name for file in path.parent.iterdir()] == ["statistics.safetensors"]
    again = ClassGaussians.load(path)
    assert (again.shrinkage, again.ridge, again.moments.statistics) == (shrinkage, 0.1, "normalized")
    assert again.log_determinant == gaussians.log_determinant
    assert torch.equal(covariances(again), covariances(gaussians))
    for name in ("means", "scale", "shift", "center", "factor"):
        assert torch.equal(getattr(again, name), getattr(gaussians, name)), name
    for name, tensor in gaussians.moments.tensors().items():
        assert torch.equal(again.moments.tensors()[name], tensor), name


def test_every_kind_of_damage_is_noticed(tmp_path):
    path = tmp_path / "statistics.safetensors"
    gaussians_of(*clouds(2)).save(path)
    whole = path.read_bytes()
    damaged = {end: whole[:end] for end in (0, 5, 100, len(whole) // 2, len(whole) - 1)}
    for place in range(0, len(whole), 97):
        damaged[-1 - place] = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
    for content in damaged.values():
        path.write_bytes(content)
        with pytest.raises(DamagedFileError, match="again"):
            ClassGaussians.load(path)
    path.write_bytes(whole)
    ClassGaussians.load(path)


def test_another_safetensors_file_is_not_taken_for_statistics(tmp_path):
    from safetensors.torch import save_file

    save_file({"means": torch.zeros(2, 2)}, tmp_path / "other.safetensors")
    with pytest.raises(DamagedFileError, match="is not a file of"):
        ClassGaussians.load(tmp_path / "other.safetensors")
    with pytest.raises(InputError, match=r"there is no .*missing\.safetensors: make it first"):
        ClassGaussians.load(tmp_path / "missing.safetensors")


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "statistics.safetensors"
    gaussians = gaussians_of(*clouds(2))
    gaussians.save(path)

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr("cplsr.tensor_file.save_file", broken)
    with pytest.raises(OSError, match="disk full"):
        gaussians_of(*clouds(3)).save(path)
    assert torch.equal(ClassGaussians.load(path).means, gaussians.means)
    assert len(list(tmp_path.iterdir())) == 1


def test_moments_gathered_in_parts_give_the_same_gaussians():
    embeddings, labels = clouds(7)
    moments = ClassMoments(3, 4)
    for start in range(0, 75, 10):
        moments.update(embeddings[start : start + 10], labels[start : start + 10])
    streamed = ClassGaussians.from_moments(moments)
    whole = gaussians_of(embeddings, labels)
    torch.testing.assert_close(covariances(streamed), covariances(whole), rtol=1e-12, atol=1e-12)


def test_moved_gaussians_are_those_of_moved_embeddings():
    generator = torch.Generator().manual_seed(4)
    embeddings = torch.randn(3, 9, 4, dtype=torch.float64, generator=generator)
    shifts = torch.randn(3, 4, dtype=torch.float64, generator=generator)

    def gaussians(vectors):
        moments = ClassMoments(3, 4)
        moments.update(vectors.flatten(0, 1), torch.arange(3).repeat_interleave(9))
        return ClassGaussians.from_moments(moments)

    still, wanted = gaussians(embeddings), gaussians(embeddings + shifts[:, None])
    moved = still.moved(shifts)
    assert torch.allclose(covariances(moved), covariances(wanted), atol=1e-9)
    for name in ("means", "center", "factor"):
        assert torch.allclose(getattr(moved, name), getattr(wanted, name), atol=1e-9)
    assert moved.log_determinant == still.log_determinant
    assert not torch.allclose(still.means, moved.means)
