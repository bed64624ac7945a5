"""Random changes to images against pixel-by-pixel transcriptions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.data.augment import (
    augmented,
    blur,
    color_jitter,
    flip,
    mask_frequencies,
    posterize,
    random_convolution,
    sometimes,
    translate,
    turned_at_random,
)


def images_of(count: int = 4, size: int = 8, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(seed))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


CHANGES = {
    "flip": lambda images, generator: flip(images, generator),
    "color_jitter": lambda images, generator: color_jitter(images, 0.4, generator),
    "translate": lambda images, generator: translate(images, 0.25, generator),
    "random_convolution": lambda images, generator: random_convolution(images, (1, 3), generator),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_same_seed_gives_the_same_images_and_another_seed_others(name):
    images = images_of(16)
    first, again, other = (CHANGES[name](images, seeded(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == images.shape


def test_a_flip_mirrors_columns_of_the_share_asked_for():
    images = images_of(400)
    flipped = flip(images, seeded(), chance=0.25)
    mirrored = [torch.equal(new, old[:, :, torch.arange(7, -1, -1)]) for new, old in zip(flipped, images, strict=True)]
    kept = [torch.equal(new, old) for new, old in zip(flipped, images, strict=True)]
    assert all(one != other for one, other in zip(mirrored, kept, strict=True))
    assert 70 < sum(mirrored) < 130


def literal_jitter(image, brightness, contrast, saturation):
    """One image as lists of numbers: brightness, then contrast, then saturation."""

    def kept(value):
        return min(max(value, 0.0), 1.0)

    size = image.shape[-1]
    places = [(row, column) for row in range(size) for column in range(size)]
    colors = {place: [kept(image[c][place].item() * brightness) for c in range(3)] for place in places}

    def gray(color):
        return 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2]

    mean = sum(gray(color) for color in colors.values()) / len(places)
    colors = {p: [kept(contrast * value + (1 - contrast) * mean) for value in color] for p, color in colors.items()}
    return {
        p: [kept(saturation * value + (1 - saturation) * gray(color)) for value in color] for p, color in colors.items()
    }


def test_color_jitter_is_brightness_contrast_and_saturation():
    images = images_of(3)
    changed = color_jitter(images, 0.4, seeded(5))
    factors = 1 + 0.4 * (2 * torch.rand(3, 3, 1, 1, 1, generator=seeded(5)) - 1)
    for number, image in enumerate(images):
        wanted = literal_jitter(image, *factors[:, number, 0, 0, 0].tolist())
        for (row, column), color in wanted.items():
            assert changed[number, :, row, column].tolist() == pytest.approx(color, abs=1e-5)


def test_colors_of_bytes_are_jittered_then_half_of_the_images_flipped():
    images = (images_of(6) * 255).round().byte()
    changed = augmented(images, "colors", seeded(5))
    stream = seeded(5)
    factors = 1 + 0.4 * (2 * torch.rand(3, 6, 1, 1, 1, generator=stream) - 1)
    flipped = (torch.rand(6, 1, 1, 1, generator=stream) < 0.5).flatten().tolist()
    assert len(set(flipped)) == 2
    assert changed.dtype == torch.uint8
    for number, image in enumerate(images / 255):
        wanted = literal_jitter(image, *factors[:, number, 0, 0, 0].tolist())
        for (row, column), color in wanted.items():
            found = changed[number, :, row, 7 - column if flipped[number] else column].tolist()
            assert found == pytest.approx([255 * value for value in color], abs=0.501)


def test_without_augmentation_images_are_themselves():
    images = (images_of() * 255).byte()
    assert augmented(images, "none", seeded()) is images


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1000), st.floats(0, 1))
def test_color_jitter_stays_within_its_range_and_none_changes_nothing(seed, strength):
    images = images_of(seed=seed)
    changed = color_jitter(images, strength, seeded(seed))
    assert 0 <= changed.min() <= changed.max() <= 1
    torch.testing.assert_close(color_jitter(images, 0.0, seeded(seed)), images)


def test_a_translation_moves_whole_pixels_within_reach_and_fills_with_black():
    images = 0.1 + images_of(32)
    moved = translate(images, 0.25, seeded())
    steps = set()
    for new, old in zip(moved, images, strict=True):
        found = [
            (down, right)
            for down in range(-2, 3)
            for right in range(-2, 3)
            if all(
                torch.equal(new[:, row, column], old[:, row + down, column + right])
                if 0 <= row + down < 8 and 0 <= column + right < 8
                else bool((new[:, row, column] == 0).all())
                for row in range(8)
                for column in range(8)
            )
        ]
        assert len(found) == 1
        steps |= set(found)
    assert {down for down, _ in steps} == {right for _, right in steps} == {-2, -1, 0, 1, 2}
    assert torch.equal(translate(images, 0.1, seeded()), images)  # less than a pixel


def test_sometimes_takes_each_image_whole():
    images, others = torch.zeros(500, 3, 2, 2), torch.ones(500, 3, 2, 2)
    mixed = sometimes(others, images, 0.9, seeded())
    means = mixed.mean(dim=(1, 2, 3))
    assert set(means.tolist()) == {0.0, 1.0}
    assert 0.85 < means.mean() < 0.95


def test_a_random_convolution_is_one_kernel_for_all_images():
    images = images_of(2, size=5)
    changed = random_convolution(images, (3,), seeded(2))
    stream = seeded(2)
    torch.randint(1, (1,), generator=stream)
    kernel = torch.randn(3, 3, 3, 3, generator=stream) / 27**0.5
    for image in range(2):
        for channel in range(3):
            for row in range(5):
                for column in range(5):
                    wanted = sum(
                        kernel[channel, c, i, j].item() * images[image, c, row + i - 1, column + j - 1].item()
                        for c in range(3)
                        for i in range(3)
                        for j in range(3)
                        if 0 <= row + i - 1 < 5 and 0 <= column + j - 1 < 5
                    )
                    assert changed[image, channel, row, column].item() == pytest.approx(wanted, abs=1e-5)


def test_a_random_convolution_keeps_the_variance_on_average():
    images = torch.randn(1, 3, 32, 32, generator=seeded())
    variances = [random_convolution(images, (5,), seeded(seed))[..., 2:-2, 2:-2].var().item() for seed in range(60)]
    assert sum(variances) / len(variances) == pytest.approx(1, abs=0.15)


def test_foreign_views_are_changes_of_each_image_by_its_own_chance():
    images = torch.randint(256, (200, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    views = augmented(images, "foreign", torch.Generator().manual_seed(1))
    again = augmented(images, "foreign", torch.Generator().manual_seed(1))
    assert torch.equal(views, again)
    untouched = (views == images).flatten(1).all(1).double().mean().item()
    assert abs(untouched - 0.7**6) < 0.08
    colorless = (views[:, 0] == views[:, 1]).flatten(1).all(1).double().mean().item()
    assert 0.1 < colorless < 0.4  # gray, unless a convolution colored it again


def test_blur_and_masked_frequencies_and_steps_are_the_literal_ones():
    generator = torch.Generator().manual_seed(2)
    image = torch.rand(1, 3, 6, 6, generator=generator)
    row, column = 0, 3
    rows, columns = [min(max(row + d, 0), 5) for d in range(-2, 3)], [min(max(column + d, 0), 5) for d in range(-2, 3)]
    around = [image[0, 1, r, c] for r in rows for c in columns]
    assert blur(image)[0, 1, row, column].item() == pytest.approx(sum(around).item() / 25, rel=1e-5)

    steps = posterize(image, torch.Generator().manual_seed(5))
    count = int(torch.randint(1, 8, (1,), generator=torch.Generator().manual_seed(5)))
    assert torch.allclose(steps * count, (image * count).round())

    masked = mask_frequencies(image / 4 + 0.375, torch.Generator().manual_seed(6))
    kept = torch.rand(1, 1, 6, 4, generator=torch.Generator().manual_seed(6)) < 0.5
    expected = torch.fft.rfft2(image / 4 + 0.375) * kept
    expected[..., 0, 0] = torch.fft.rfft2(image / 4 + 0.375)[..., 0, 0]
    assert torch.allclose(masked, torch.fft.irfft2(expected, s=(6, 6)).clamp(0, 1), atol=1e-6)


def test_images_are_turned_by_multiples_of_a_quarter():
    images = torch.randint(256, (40, 3, 4, 4), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    turned = turned_at_random(images, torch.Generator().manual_seed(1))
    turns = torch.randint(4, (40,), generator=torch.Generator().manual_seed(1))
    assert set(turns.tolist()) == {0, 1, 2, 3}
    for image, other, turn in zip(images, turned, turns, strict=True):
        assert torch.equal(other, torch.rot90(image, int(turn), dims=(1, 2)))
