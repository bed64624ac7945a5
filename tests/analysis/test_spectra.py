"""What is told of each head's C."""

import math

import pytest
import torch

from cplsr import attach
from cplsr.analysis.spectra import head_change, head_changes


def test_one_matrix_is_measured_literally():
    C = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.0, 1.0]])
    change = head_change(C, layer=4, head=2)
    entries = [(i, j) for i in range(3) for j in range(3)]
    c = C.tolist()
    assert (change.layer, change.head) == (4, 2)
    assert change.distance == pytest.approx(math.sqrt(sum((c[i][j] - (i == j)) ** 2 for i, j in entries)))
    difference = math.sqrt(sum((c[i][j] - c[j][i]) ** 2 for i, j in entries))
    total = math.sqrt(sum((c[i][j] + c[j][i]) ** 2 for i, j in entries))
    assert change.asymmetry == pytest.approx(difference / total)
    squares = torch.linalg.eigvalsh(C.double().T @ C.double())
    assert change.singular_min == pytest.approx(squares[0].sqrt().item())
    assert change.singular_max == pytest.approx(squares[-1].sqrt().item())
    assert change.condition == pytest.approx((squares[-1] / squares[0]).sqrt().item())


def test_the_identity_has_not_changed():
    change = head_change(torch.eye(4), 0, 0)
    assert (change.distance, change.condition, change.asymmetry) == (0, 1, 0)


def test_singular_and_antisymmetric_matrices_are_infinite_not_errors():
    assert head_change(torch.zeros(2, 2), 0, 0).condition == math.inf
    assert head_change(torch.zeros(2, 2), 0, 0).asymmetry == 0
    assert head_change(torch.tensor([[0.0, 1.0], [-1.0, 0.0]]), 0, 0).asymmetry == math.inf


def test_heads_are_ranked_by_how_far_they_moved(backbone):
    attach(backbone, "coalescent")
    with torch.no_grad():
        backbone.adapter.C["1"][0] *= 3
        backbone.adapter.C["0"][1] *= 2
    changes = head_changes(backbone.adapter)
    assert [(change.layer, change.head) for change in changes] == [(1, 0), (0, 1), (0, 0), (1, 1)]
    assert changes[0].distance == pytest.approx(2 * math.sqrt(32))
    assert changes[2].distance == 0


def test_a_shared_matrix_counts_for_each_of_its_heads_and_absent_layers_for_none(backbone):
    attach(backbone, "coalescent", sharing="shared", layers=[1])
    with torch.no_grad():
        backbone.adapter.C["1"] += 0.1
    changes = head_changes(backbone.adapter)
    assert [(change.layer, change.head) for change in changes] == [(1, 0), (1, 1)]
    assert changes[0].distance == changes[1].distance > 0


def test_under_the_constraint_it_is_the_form_that_is_measured_not_its_factor(backbone):
    attach(backbone, "coalescent", constraint="mahalanobis", init="near_identity")
    factor = backbone.adapter.C["0"][0].detach().double().tril()
    change = next(change for change in head_changes(backbone.adapter) if (change.layer, change.head) == (0, 0))
    assert change.distance == pytest.approx((factor @ factor.T - torch.eye(32)).norm().item(), rel=1e-5)
    assert change.asymmetry == pytest.approx(0, abs=1e-6)
