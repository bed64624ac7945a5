"""The episodes of a base episode: each turn of each class once, and the pixels turned as planned."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.data.augment import augmented
from cplsr.data.decoded_images import DecodedImages
from cplsr.episodes.sampling import EpisodeSampler
from cplsr.training.episode_plan import plan_base_episode

LABELS = np.repeat(np.arange(7), 6)


def sampler(way=3, shot=2, query=2, seed=0) -> EpisodeSampler:
    return EpisodeSampler(LABELS, way=way, shot=shot, query=query, seed=seed)


@given(st.integers(0, 1000), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_four_disjoint_episodes_hold_every_turn_of_every_class_once(number, seed):
    plans = plan_base_episode(sampler(seed=seed), number, sst=True)
    assert len(plans) == 4
    seen = [(tuple(images), turn) for plan in plans for images, turn in zip(plan.images, plan.turns, strict=True)]
    assert len(seen) == len(set(seen)) == 12
    by_class = {}
    for images, turn in seen:
        by_class.setdefault(images, set()).add(turn)
    assert len(by_class) == 3
    assert all(turns == {0, 1, 2, 3} for turns in by_class.values())


def test_without_sst_there_is_one_episode_and_nothing_is_turned():
    (plan,) = plan_base_episode(sampler(), 4, sst=False)
    drawn = sampler().draw(1, first=4)
    assert np.array_equal(plan.images, np.concatenate([drawn.support[0], drawn.query[0]], axis=1))
    assert plan.turns == (0, 0, 0)


def test_pixels_are_turned_counter_clockwise_class_by_class():
    pixels = np.arange(len(LABELS) * 3 * 4 * 4, dtype=np.int64).reshape(len(LABELS), 3, 4, 4).astype(np.uint8)
    images = DecodedImages(pixels, LABELS, tuple("abcdefg"), "x", ())
    plan = plan_base_episode(sampler(), 0, sst=True)[1]
    result = plan.pixels(images, "none", torch.Generator())
    row = 0
    for members, turn in zip(plan.images, plan.turns, strict=True):
        for image in members:
            assert np.array_equal(result[row].numpy(), np.rot90(pixels[image], turn, axes=(-2, -1)))
            row += 1
    assert row == len(result)


@pytest.mark.parametrize("kind", ["colors", "crop"])
def test_images_are_changed_before_they_are_turned(kind):
    images = DecodedImages(
        torch.randint(256, (len(LABELS), 3, 8, 8), generator=torch.Generator().manual_seed(0)).byte().numpy(),
        LABELS, tuple("abcdefg"), "x", (),
    )  # fmt: skip
    plan = plan_base_episode(sampler(), 0, sst=True)[1]
    changed = augmented(images.take(plan.images), kind, torch.Generator().manual_seed(3)).unflatten(0, (3, 4))
    wanted = [np.rot90(part.numpy(), turn, axes=(-2, -1)) for part, turn in zip(changed, plan.turns, strict=True)]
    assert any(plan.turns)
    found = plan.pixels(images, kind, torch.Generator().manual_seed(3))
    assert np.array_equal(found.numpy(), np.concatenate(wanted))
