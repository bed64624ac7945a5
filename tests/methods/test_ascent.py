"""Gradient ascent against hand-written steps, and that it leaves everything else alone."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from cplsr.methods.ata import ascend, direction, pixel_rate

SHAPE = (3, 2, 4)


def inputs_of(seed: int = 0) -> torch.Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_two_steps_up_a_sum_of_cubes_are_those_written_out():
    inputs = inputs_of()
    found = ascend(inputs, lambda x: (x**3).sum(), steps=2, rate=0.1)
    for image in range(3):
        row = inputs[image].flatten().tolist()
        for _ in range(2):
            slopes = [3 * value**2 for value in row]
            size = math.sqrt(sum(slope**2 for slope in slopes) / len(slopes))
            row = [value + 0.1 * slope / size for value, slope in zip(row, slopes, strict=True)]
        assert found[image].flatten().tolist() == pytest.approx(row)


@settings(deadline=None, max_examples=25)
@given(st.floats(-30, 30), st.integers(0, 1000))
def test_every_direction_has_a_root_mean_square_of_one_whatever_the_gradient(power, seed):
    gradient = inputs_of(seed).float() * 10**power
    found = direction(gradient)
    torch.testing.assert_close(found.square().mean(dim=(1, 2)).sqrt(), torch.ones(3))
    cosine = torch.nn.functional.cosine_similarity(found.flatten(1).double(), inputs_of(seed).flatten(1))
    torch.testing.assert_close(cosine, torch.ones(3, dtype=torch.float64))


def test_an_input_without_gradient_stays_where_it_is():
    inputs = inputs_of()
    found = ascend(inputs, lambda x: x[1].sum(), steps=3, rate=0.5)
    assert torch.equal(found[0], inputs[0])
    assert torch.equal(found[2], inputs[2])
    torch.testing.assert_close(found[1], inputs[1] + 1.5)


@pytest.mark.parametrize("grad", [True, False])
def test_the_loss_rises_and_nothing_else_is_touched(grad):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    inputs = inputs_of().float()
    before = inputs.clone()
    with torch.set_grad_enabled(grad):
        found = ascend(inputs, lambda x: network(x).sum(), steps=5, rate=0.02)
        assert torch.is_grad_enabled() == grad
    assert network(found).sum() > network(inputs).sum()
    assert all(parameter.grad is None for parameter in network.parameters())
    assert torch.equal(inputs, before)
    assert not inputs.requires_grad
    assert not found.requires_grad


def test_no_steps_change_nothing():
    inputs = inputs_of().requires_grad_()
    found = ascend(inputs, lambda x: x.sum(), steps=0, rate=1.0)
    assert torch.equal(found, inputs)
    assert not found.requires_grad
    assert inputs.requires_grad


def test_a_rate_in_levels_moves_raw_pixels_by_as_many():
    std = (0.2, 0.25, 0.5)
    normalized = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    weights = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(1))
    moved = ascend(normalized, lambda x: (weights * x).sum(), steps=1, rate=pixel_rate(3.0, std))
    levels = (moved - normalized) * torch.tensor(std).view(3, 1, 1) * 255
    torch.testing.assert_close(levels.square().mean(dim=(1, 2, 3)).sqrt(), torch.full((2,), 3.0))
