import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from cplsr.episodes.prototypes import accuracy, cosine_logits, normalize, prototypes, query_targets


def length(vector):
    return math.sqrt(sum(x * x for x in vector))


def prototypes_literally(support, kind):
    result = []
    for images in support:
        if kind == "mean_of_normalized":
            images = [[x / length(image) for x in image] for image in images]
        result.append([sum(column) / len(images) for column in zip(*images, strict=True)])
    return result


def logits_literally(queries, class_prototypes, temperature):
    return [
        [
            temperature * sum(a * b for a, b in zip(query, p, strict=True)) / (length(query) * length(p))
            for p in class_prototypes
        ]
        for query in queries
    ]


def loss_literally(logits, targets):
    losses = [
        -math.log(math.exp(row[target]) / sum(map(math.exp, row))) for row, target in zip(logits, targets, strict=True)
    ]
    return sum(losses) / len(losses)


@settings(deadline=None, max_examples=30)
@given(
    way=st.integers(1, 4),
    shot=st.integers(1, 4),
    queries=st.integers(1, 5),
    dim=st.integers(2, 6),  # with one dimension, supports scaled to length one may cancel
    kind=st.sampled_from(["mean", "mean_of_normalized"]),
    temperature=st.sampled_from([1.0, 20.0]),
    seed=st.integers(0, 1000),
)
def test_against_the_formulas_written_out(way, shot, queries, dim, kind, temperature, seed):
    generator = torch.Generator().manual_seed(seed)
    support = torch.randn(way, shot, dim, generator=generator, dtype=torch.float64)
    query = torch.randn(queries, dim, generator=generator, dtype=torch.float64)
    targets = torch.randint(way, (queries,), generator=generator)

    class_prototypes = prototypes(support, kind)
    logits = cosine_logits(query, class_prototypes, temperature)
    loss = cross_entropy(logits, targets)

    expected_prototypes = prototypes_literally(support.tolist(), kind)
    expected_logits = logits_literally(query.tolist(), expected_prototypes, temperature)
    torch.testing.assert_close(class_prototypes, torch.tensor(expected_prototypes, dtype=torch.float64))
    torch.testing.assert_close(logits, torch.tensor(expected_logits, dtype=torch.float64), rtol=1e-9, atol=1e-9)
    assert loss.item() == pytest.approx(loss_literally(expected_logits, targets.tolist()), rel=1e-9, abs=1e-12)


def test_temperature_is_20_unless_given():
    vector = torch.tensor([[3.0, 4.0]])

    assert cosine_logits(vector, vector).item() == pytest.approx(20)


def test_many_episodes_at_once_are_the_single_ones():
    generator = torch.Generator().manual_seed(0)
    support, query = torch.randn(6, 5, 2, 8, generator=generator), torch.randn(6, 10, 8, generator=generator)
    targets = query_targets(5, 2)

    logits = cosine_logits(query, prototypes(support))

    singles = [cosine_logits(q, prototypes(s)) for s, q in zip(support, query, strict=True)]
    torch.testing.assert_close(logits, torch.stack(singles))
    torch.testing.assert_close(accuracy(logits, targets), torch.stack([accuracy(x, targets) for x in singles]))


def test_the_two_kinds_of_prototype_differ_when_lengths_do():
    support = torch.tensor([[[1.0, 0.0], [0.0, 9.0]]])

    torch.testing.assert_close(prototypes(support), torch.tensor([[0.5, 4.5]]))
    torch.testing.assert_close(prototypes(support, "mean_of_normalized"), torch.tensor([[0.5, 0.5]]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["mean", "mean_of_normalized"])
def test_zero_vectors_give_numbers_and_gradients(dtype, kind):
    support = torch.randn(3, 2, 4, dtype=dtype)
    support[1] = 0
    query = torch.randn(5, 4, dtype=dtype)
    query[2] = 0
    support.requires_grad_()
    query.requires_grad_()

    logits = cosine_logits(query, prototypes(support, kind))
    cross_entropy(logits, torch.tensor([0, 1, 2, 0, 1])).backward()

    assert logits.dtype == dtype
    assert logits[2].tolist() == [0, 0, 0]
    assert logits[:, 1].tolist() == [0] * 5
    assert torch.isfinite(logits).all()
    assert torch.isfinite(support.grad).all()
    assert torch.isfinite(query.grad).all()


def test_gradients_are_those_of_the_formula():
    generator = torch.Generator().manual_seed(1)
    support = torch.randn(3, 2, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    query = torch.randn(6, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    targets = query_targets(3, 2)

    for kind in ("mean", "mean_of_normalized"):
        torch.autograd.gradcheck(
            lambda s, q, kind=kind: cross_entropy(cosine_logits(q, prototypes(s, kind)), targets), (support, query)
        )


def test_normalize_leaves_length_one():
    vectors = torch.tensor([[3.0, 4.0], [1e-12, 0.0], [0.0, 0.0]])

    torch.testing.assert_close(normalize(vectors), torch.tensor([[0.6, 0.8], [1.0, 0.0], [0.0, 0.0]]))


def test_accuracy_counts_the_highest_logit():
    logits = torch.tensor([[[1.0, 2.0], [3.0, 0.0]], [[5.0, 1.0], [1.0, 4.0]]])

    assert accuracy(logits, torch.tensor([0, 1])).tolist() == [0.0, 1.0]
    assert accuracy(logits, torch.tensor([[1, 0], [0, 0]])).tolist() == [1.0, 0.5]


def test_query_targets_stand_class_by_class():
    assert query_targets(3, 2).tolist() == [0, 0, 1, 1, 2, 2]
