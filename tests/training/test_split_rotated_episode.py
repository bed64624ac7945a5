import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.training.episode_plan import split_rotated_episode


@given(way=st.integers(1, 10), seed=st.integers(0, 1000))
@settings(deadline=None, max_examples=40)
def test_the_split_is_a_partition(way, seed):
    split = split_rotated_episode(way, generator=torch.Generator().manual_seed(seed))
    assert split.shape == (4, way)
    assert sorted(split.flatten().tolist()) == list(range(4 * way))
    assert torch.equal(split, split_rotated_episode(way, generator=torch.Generator().manual_seed(seed)))


def test_the_split_is_random():
    generator = torch.Generator().manual_seed(0)
    first = torch.stack([split_rotated_episode(2, generator=generator)[0, 0] for _ in range(4000)])
    counts = torch.bincount(first, minlength=8).double()
    assert ((counts - 500) ** 2 / 500).sum() < 27  # chi-squared with 7 degrees of freedom: p < 4e-4
