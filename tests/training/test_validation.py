"""Fixed validation episodes against a literal construction; classes held out."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from cplsr import TrainingSettings, load_backbone
from cplsr.data.decoded_images import decoded_images
from cplsr.episodes.sampling import EpisodeSampler
from cplsr.errors import InputError
from cplsr.processes import Processes
from cplsr.training.validation import Validation, hold_out_classes

SETTINGS = TrainingSettings(way=3, shot=2, query=2, validation_episodes=20)
PLAIN = replace(SETTINGS, sst=False)


@pytest.fixture
def images(tiny):
    return decoded_images(tiny, 32, processes=Processes(), workers=0)


@pytest.fixture
def validation(images):
    return Validation.of(images, SETTINGS)


def test_every_draw_becomes_four_disjoint_episodes_of_turned_classes(validation):
    episodes, count = validation.episodes, len(validation.images)
    assert episodes.support.shape == (20, 3, 2)
    for draw in range(5):
        part = slice(4 * draw, 4 * draw + 4)
        support, query = episodes.support[part], episodes.query[part]
        classes = {}
        for images in np.concatenate([support, query], axis=-1).reshape(12, 4):
            turns = set((images // count).tolist())
            labels = set(validation.images.labels[images % count].tolist())
            assert len(turns) == len(labels) == 1
            assert len(set(images.tolist())) == 4
            classes.setdefault(labels.pop(), set()).add(turns.pop())
        assert len(classes) == 3
        assert all(turns == {0, 1, 2, 3} for turns in classes.values())


def test_nothing_is_turned_where_turned_classes_are_not_trained_on(images, checkpoint_file):
    plain = Validation.of(images, PLAIN)
    drawn = EpisodeSampler(images.labels, way=3, shot=2, query=2, seed=0).draw(20)
    assert np.array_equal(plain.episodes.support, drawn.support)
    assert np.array_equal(plain.episodes.query, drawn.query)
    seen = []
    backbone = load_backbone(checkpoint_file, heads=2)
    backbone.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    plain.accuracy(backbone, Processes())
    assert sum(seen) == len(images)
    assert len(Validation.of(images, replace(PLAIN, validation_episodes=18)).episodes) == 18


def test_turned_episodes_are_those_of_earlier_runs(validation):
    assert validation.fingerprint == "9aa3bd027aca733e"


@pytest.mark.parametrize("settings", [SETTINGS, PLAIN], ids=["turned", "plain"])
def test_accuracy_is_that_of_a_literal_loop(images, settings, checkpoint_file):
    validation = Validation.of(images, settings)
    backbone = load_backbone(checkpoint_file, heads=2)
    count = len(validation.images)
    vectors = []
    for turn in range(4):
        for image in range(count):
            pixels = torch.from_numpy(np.rot90(validation.images.pixels[image], turn, axes=(-2, -1)).copy())
            vectors.append(backbone(pixels[None])[0])
    shares = []
    for support, query in zip(validation.episodes.support, validation.episodes.query, strict=True):
        centers = [torch.stack([vectors[i] for i in row]).mean(0) for row in support]
        right = [
            max(range(3), key=lambda c, i=i: torch.cosine_similarity(vectors[i], centers[c], dim=0).item()) == label
            for label, row in enumerate(query)
            for i in row
        ]
        shares.append(100 * np.mean(right))
    result = validation.accuracy(backbone, Processes())
    assert result.mean == pytest.approx(np.mean(shares), abs=1e-6)
    assert result.half_width == pytest.approx(1.96 * np.std(shares, ddof=1) / np.sqrt(20), abs=1e-6)


def test_with_the_ridge_head_accuracy_is_that_of_a_literal_loop(tiny, checkpoint_file):
    settings = TrainingSettings(way=3, shot=2, query=2, validation_episodes=8, sst=False, head="ridge")
    validation = Validation.of(decoded_images(tiny, 32, processes=Processes(), workers=0), settings)
    backbone = load_backbone(checkpoint_file, heads=2, pooling="depth")
    vectors = backbone(torch.from_numpy(np.array(validation.images.pixels))).double()
    vectors = vectors / vectors.norm(dim=1, keepdim=True)
    truth = torch.eye(3, dtype=torch.float64).repeat_interleave(2, dim=0)
    right = []
    for support, query in zip(validation.episodes.support, validation.episodes.query, strict=True):
        rows = vectors[support.reshape(-1)]
        weights = rows.T @ torch.linalg.inv(rows @ rows.T + 0.1 * torch.eye(6)) @ truth
        answers = (vectors[query.reshape(-1)] @ weights).argmax(dim=1)
        right += (answers == torch.arange(3).repeat_interleave(2)).tolist()
    assert validation.accuracy(backbone, Processes()).mean == pytest.approx(100 * np.mean(right), abs=1e-6)


def test_episodes_are_fixed_by_the_seed(tiny):
    images = decoded_images(tiny, 32, processes=Processes(), workers=0)
    first, again = Validation.of(images, SETTINGS), Validation.of(images, SETTINGS)
    other = Validation.of(images, TrainingSettings(way=3, shot=2, query=2, validation_episodes=20, seed=1))
    assert first.fingerprint == again.fingerprint != other.fingerprint


def test_held_out_classes_are_a_fifth_and_disjoint(tiny):
    train, val = hold_out_classes(tiny, way=2, seed=0)
    assert (len(train.classes), len(val.classes)) == (8, 2)
    assert not set(train.classes) & set(val.classes)
    assert len(train) + len(val) == len(tiny)
    assert hold_out_classes(tiny, way=2, seed=0)[1].classes == val.classes
    assert any(hold_out_classes(tiny, way=2, seed=seed)[1].classes != val.classes for seed in range(1, 6))
    assert len(hold_out_classes(tiny, way=5, seed=0)[1].classes) == 5
    with pytest.raises(InputError, match="needs 12"):
        hold_out_classes(tiny, way=6, seed=0)
