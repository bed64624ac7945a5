"""Identity forward, opposite sign backward."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.methods.afa import reverse_gradient


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000))
def test_only_the_gradient_changes(seed: int):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    y = reverse_gradient(x)
    assert torch.equal(y, x)
    ((y**2) * weights).sum().backward()
    torch.testing.assert_close(x.grad, -2 * x.detach() * weights)


def test_the_gradient_is_scaled_too():
    x = torch.randn(4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    reverse_gradient(x, 0.25).sin().sum().backward()
    torch.testing.assert_close(x.grad, -0.25 * x.detach().cos())


def test_two_reversals_are_none():
    x = torch.randn(4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    reverse_gradient(reverse_gradient(x).sin()).sum().backward()
    torch.testing.assert_close(x.grad, x.detach().cos())


def test_both_sides_are_trained_against_each_other():
    """min over w, max over x of (w − x)²/2 + w²: w falls toward x, x runs away from w."""
    w, x = torch.tensor(3.0, requires_grad=True), torch.tensor(1.0, requires_grad=True)
    (0.5 * (w - reverse_gradient(x)) ** 2 + w**2).backward()
    assert w.grad.item() == 2 + 6
    assert x.grad.item() == 2  # the loss itself has −2
