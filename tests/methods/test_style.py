"""Styles of token grids against a channel-by-channel transcription."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.methods.style import EPSILON, stages, style_of, with_style


def tokens_of(batch: int = 2, tokens: int = 6, dim: int = 3, seed: int = 0) -> torch.Tensor:
    return 2 + 3 * torch.randn(batch, tokens, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def literal_style(tokens, image, channel, prefix):
    values = [tokens[image, place, channel].item() for place in range(prefix, tokens.shape[1])]
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    return mean, (variance + EPSILON) ** 0.5


def test_a_style_is_mean_and_deviation_of_each_channel_over_the_patches():
    tokens = tokens_of()
    means, deviations = style_of(tokens, 2)
    for image in range(2):
        for channel in range(3):
            mean, deviation = literal_style(tokens, image, channel, 2)
            assert means[image, 0, channel].item() == pytest.approx(mean)
            assert deviations[image, 0, channel].item() == pytest.approx(deviation)


def test_another_style_moves_patches_channel_by_channel_and_no_other_token():
    tokens = tokens_of()
    style = (torch.randn(2, 1, 3, dtype=torch.float64), torch.rand(2, 1, 3, dtype=torch.float64))
    changed = with_style(tokens, 2, style)
    assert torch.equal(changed[:, :2], tokens[:, :2])
    for image in range(2):
        for channel in range(3):
            mean, deviation = literal_style(tokens, image, channel, 2)
            for place in range(2, 6):
                wanted = (tokens[image, place, channel].item() - mean) / deviation
                wanted = wanted * style[1][image, 0, channel].item() + style[0][image, 0, channel].item()
                assert changed[image, place, channel].item() == pytest.approx(wanted)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.integers(0, 3))
def test_its_own_style_changes_nothing_and_a_given_one_is_what_is_found(seed, prefix):
    tokens, other = tokens_of(seed=seed), tokens_of(seed=seed + 1)
    torch.testing.assert_close(with_style(tokens, prefix, style_of(tokens, prefix)), tokens)
    found = style_of(with_style(tokens, prefix, style_of(other, prefix)), prefix)
    torch.testing.assert_close(found, style_of(other, prefix), rtol=1e-4, atol=1e-4)  # ε enters twice


def test_patches_may_be_counted_from_the_end():
    tokens = tokens_of()
    assert torch.equal(style_of(tokens, 2)[0], style_of(tokens, -4)[0])
    assert torch.equal(with_style(tokens, 2, style_of(tokens, 2)), with_style(tokens, -4, style_of(tokens, -4)))


@pytest.mark.parametrize(("layers", "wanted"), [(12, (3, 6, 9)), (24, (6, 12, 18)), (4, (1, 2, 3)), (2, (1,)), (1, ())])
def test_stages_are_quarters_of_the_blocks(layers, wanted):
    assert stages(layers) == wanted


@pytest.mark.parametrize(("layers", "wanted"), [(12, (3, 6, 9, 11)), (4, (1, 2, 3)), (3, (1, 2)), (2, (1,)), (1, ())])
def test_the_fourth_stage_ends_where_the_last_block_still_has_a_map(layers, wanted):
    assert stages(layers, fourth=True) == wanted
