from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.errors import InputError
from cplsr.reservation.moments import ClassMoments, choose_statistics_images


def embeddings_and_labels(seed: int, classes: int = 3, images: int = 40, dim: int = 5, offset: float = 10.0):
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(images, dim, generator=generator, dtype=torch.float64) + offset
    return embeddings, torch.randint(classes, (images,), generator=generator)


def literal_sums(embeddings: torch.Tensor) -> dict[str, torch.Tensor]:
    """The central sums, one embedding after the other."""
    dim = embeddings.shape[1]
    mean = torch.zeros(dim, dtype=torch.float64)
    for x in embeddings:
        mean += x / len(embeddings)
    scatter, cubes, fourth = torch.zeros(dim, dim, dtype=torch.float64), torch.zeros(dim, dtype=torch.float64), 0.0
    for x in embeddings:
        y = x - mean
        length = sum(float(entry) ** 2 for entry in y)
        scatter += torch.outer(y, y)
        cubes += length * y
        fourth += length**2
    return {"mean": mean, "scatter": scatter, "cubes": cubes, "fourth": torch.tensor(fourth, dtype=torch.float64)}


def assert_holds(moments: ClassMoments, embeddings: torch.Tensor, labels: torch.Tensor, tolerance: float = 1e-10):
    for label in range(moments.classes):
        own = embeddings[labels == label]
        part = moments.of(label)
        assert part.count == len(own)
        if len(own) == 0:
            continue
        expected = literal_sums(own)
        found = {"mean": part.mean, "scatter": moments.triangle.unpack(part.scatter)}
        found |= {"cubes": part.cubes, "fourth": part.fourth}
        for name, value in expected.items():
            scale = max(1.0, float(value.abs().max()))
            torch.testing.assert_close(found[name], value, rtol=tolerance, atol=tolerance * scale)


@given(
    seed=st.integers(0, 1000), cuts=st.lists(st.integers(0, 40), max_size=6), offset=st.sampled_from([0.0, 10.0, -1e3])
)
@settings(deadline=None, max_examples=40)
def test_batches_give_the_sums_of_all_images(seed, cuts, offset):
    embeddings, labels = embeddings_and_labels(seed, offset=offset)
    moments = ClassMoments(4, 5)  # one class never appears
    edges = [0, *sorted(cuts), 40]
    for start, end in pairwise(edges):
        moments.update(embeddings[start:end], labels[start:end])
    assert_holds(moments, embeddings, labels)


@given(seed=st.integers(0, 1000), share=st.integers(0, 40))
@settings(deadline=None, max_examples=40)
def test_merged_halves_are_the_whole(seed, share):
    embeddings, labels = embeddings_and_labels(seed)
    one, two = ClassMoments(3, 5), ClassMoments(3, 5)
    one.update(embeddings[:share], labels[:share])
    two.update(embeddings[share:], labels[share:])
    before = {name: tensor.clone() for name, tensor in two.tensors().items()}
    one.merge(two)
    assert_holds(one, embeddings, labels, tolerance=1e-10)
    for name, tensor in two.tensors().items():
        assert torch.equal(tensor, before[name]), "the other side is only read"


def test_a_far_mean_costs_no_digits():
    embeddings, labels = embeddings_and_labels(1, classes=1, offset=0.0)
    near, far = ClassMoments(1, 5), ClassMoments(1, 5)
    for start in range(0, 40, 8):
        near.update(embeddings[start : start + 8], labels[start : start + 8])
        far.update(embeddings[start : start + 8] + 2.0**20, labels[start : start + 8])
    torch.testing.assert_close(far.scatter, near.scatter, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(far.fourths, near.fourths, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_every_float_format_is_summed_in_float64(dtype):
    embeddings, labels = embeddings_and_labels(2)
    moments = ClassMoments(3, 5)
    moments.update(embeddings.to(dtype), labels.int())
    assert_holds(moments, embeddings.to(dtype).double(), labels)


def test_normalized_statistics_are_those_of_unit_embeddings():
    embeddings, labels = embeddings_and_labels(3, offset=0.5)
    moments = ClassMoments(3, 5, statistics="normalized")
    moments.update(embeddings, labels)
    assert_holds(moments, torch.stack([x / x.square().sum().sqrt() for x in embeddings]), labels)


def test_bad_batches_are_refused_and_leave_nothing_behind():
    moments = ClassMoments(3, 5, statistics="normalized")
    good, label = torch.ones(1, 5), torch.zeros(1, dtype=torch.int64)
    with pytest.raises(InputError, match="nan or inf"):
        moments.update(good * float("nan"), label)
    with pytest.raises(InputError, match="nan or inf"):
        moments.update(good * float("inf"), label)
    with pytest.raises(InputError, match="all zeros"):
        moments.update(good * 0, label)
    with pytest.raises(InputError, match="4 dimensions"):
        moments.update(torch.ones(1, 4), label)
    with pytest.raises(InputError, match="from 3 to 3"):
        moments.update(good, label + 3)
    with pytest.raises(InputError, match="from -1 to -1"):
        moments.update(good, label - 1)
    assert moments.counts.sum() == 0


def test_unlike_statistics_do_not_merge():
    moments = ClassMoments(3, 5)
    for other in (ClassMoments(4, 5), ClassMoments(3, 6), ClassMoments(3, 5, statistics="normalized"), moments):
        with pytest.raises(InputError, match="merged"):
            moments.merge(other)


def test_bad_options():
    with pytest.raises(InputError, match="0 classes"):
        ClassMoments(0, 5)


def test_tensors_there_and_back():
    embeddings, labels = embeddings_and_labels(4)
    moments = ClassMoments(3, 5)
    moments.update(embeddings, labels)
    again = ClassMoments.from_tensors(moments.tensors())
    assert_holds(again, embeddings, labels)


@given(seed=st.integers(0, 1000), limit=st.integers(2, 30))
@settings(deadline=None, max_examples=30)
def test_at_most_so_many_images_of_each_class(seed, limit):
    labels = embeddings_and_labels(seed)[1] * 3 - 1  # any whole numbers will do
    chosen = choose_statistics_images(labels, limit, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(chosen, chosen.unique())
    for label in labels.unique():
        assert (labels[chosen] == label).sum() == min(limit, int((labels == label).sum()))


def test_without_a_limit_all_images_count():
    generator = torch.Generator()
    assert choose_statistics_images(torch.tensor([4, 4, 1]), None, generator=generator).tolist() == [0, 1, 2]
    assert len(choose_statistics_images(torch.tensor([], dtype=torch.int64), 5, generator=generator)) == 0
    with pytest.raises(InputError, match="at least 2"):
        choose_statistics_images(torch.tensor([4, 4, 1]), 1, generator=generator)


def test_the_choice_of_images_is_random_and_repeatable():
    labels = torch.zeros(100, dtype=torch.int64)
    choices = [choose_statistics_images(labels, 10, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1)]
    assert torch.equal(choices[0], choices[1])
    assert not torch.equal(choices[0], choices[2])
