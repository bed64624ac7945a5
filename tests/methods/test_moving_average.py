"""The twin follows by the formula, stands in for the parameters, and is stored and restored."""

import pytest
import torch
from torch import nn

from cplsr.methods.ldp_net import MovingAverage


def model() -> nn.Linear:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Linear(3, 2)


def optimizer_step(trained: nn.Linear, optimizer: torch.optim.Optimizer, losses: int, twin: MovingAverage) -> None:
    optimizer.zero_grad()
    for number in range(losses):
        twin.follow()
        trained(torch.full((1, 3), 1.0 + number)).square().sum().backward()
    optimizer.step()


@pytest.mark.parametrize("losses", [1, 3])
def test_it_moves_once_per_step_however_many_losses_a_step_has(losses: int):
    trained = model()
    twin = MovingAverage(trained.named_parameters(), 0.9)
    optimizer = torch.optim.AdamW(trained.parameters(), lr=0.1)
    wanted = trained.weight.detach().clone()
    for _ in range(4):
        optimizer_step(trained, optimizer, losses, twin)
        wanted = 0.9 * wanted + 0.1 * trained.weight.detach()
    twin.follow()
    torch.testing.assert_close(twin.get_buffer("weight"), wanted)


def test_new_twin_is_the_parameters_and_owns_none():
    trained = model()
    twin = MovingAverage(trained.named_parameters(), 0.998)
    twin.follow()
    assert torch.equal(twin.get_buffer("weight"), trained.weight)
    assert list(twin.parameters()) == []
    assert sorted(twin.state_dict()) == ["bias", "weight"]


def test_in_place_changes_what_the_model_says_and_is_undone():
    trained = model()
    twin = MovingAverage(trained.named_parameters(), 0.5)
    with torch.no_grad():
        trained.weight.add_(1)
    x = torch.ones(1, 3)
    before, old = trained(x), trained.weight.detach().clone()
    with twin.in_place():
        inside = trained(x)
    torch.testing.assert_close(inside, before - 3)
    assert not inside.requires_grad
    assert torch.equal(trained.weight, old)
    with pytest.raises(ZeroDivisionError), twin.in_place():
        raise ZeroDivisionError
    assert torch.equal(trained.weight, old)
    before.sum().backward()  # a graph built before is still whole
    torch.testing.assert_close(trained.weight.grad, torch.ones(2, 3))


def test_a_restored_twin_goes_on_with_the_same_bits():
    """Stored right after a step, when the twin has not seen its result yet."""
    ends = []
    for stop in (None, 2):
        trained = model()
        twin = MovingAverage(trained.named_parameters(), 0.7)
        optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
        for step in range(5):
            if step == stop:
                stored = ({k: v.clone() for k, v in m.state_dict().items()} for m in (trained, twin))
                parameters, buffers = stored
                trained = model()
                twin = MovingAverage(trained.named_parameters(), 0.7)
                trained.load_state_dict(parameters)
                twin.load_state_dict(buffers)
                optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
            optimizer_step(trained, optimizer, 2, twin)
        ends.append(twin.get_buffer("weight"))
    assert torch.equal(*ends)
