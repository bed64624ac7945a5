"""A short run decodes the images it takes, no others, and ends with the same adapter as if all were decoded."""

from dataclasses import replace

import numpy as np
import pytest

from cplsr.backbones.load import load_backbone
from cplsr.data.domain import UnreadableImageError
from cplsr.settings.training import TrainingSettings
from cplsr.training import episode_plan as module
from cplsr.training.episode_plan import needed_images
from cplsr.training.loop import train
from cplsr.training.validation import hold_out_classes

SETTINGS = TrainingSettings(
    way=2, shot=1, query=1, episodes=2, statistics_images=2, validation_episodes=4, candidates=10, episodes_per_step=1
)


@pytest.fixture
def counted(tiny, checkpoint_file, tmp_path, monkeypatch):
    """Trains on the tiny domain; gives the adapter's bytes, and which base images were read."""
    base, val = hold_out_classes(tiny, way=2, seed=0)
    # Where somebody reads how long it will take, a few images are read for a timed step.
    monkeypatch.setattr("cplsr.training.forecast._timed", lambda job: (0.0, 0.0, 0.0))

    def go(name, bad=(), **changes):
        monkeypatch.setenv("CPLSR_CACHE", str(tmp_path / f"cache of {name}"))
        read = []

        def reader(index):
            read.append(index)
            if index in bad:
                raise UnreadableImageError("spoiled")
            return base.reader(index)

        settings = replace(SETTINGS, **changes)
        backbone = load_backbone(checkpoint_file, heads=2, device="cpu")
        train(backbone, replace(base, reader=reader), val, out=tmp_path / name, settings=settings, workers=0)
        return (tmp_path / name / "last" / "adapter.safetensors").read_bytes(), read

    return base, go


@pytest.mark.parametrize("changes", [{}, {"pe": False}, {"follow": 1}, {"sst": False}])
def test_only_what_is_taken_is_decoded_and_the_result_is_the_same(counted, monkeypatch, changes):
    base, go = counted

    few, read = go("few", **changes)
    monkeypatch.setattr(module, "MOST", 0.0)
    all_, everything = go("all", **changes)

    assert few == all_
    assert sorted(everything) == list(range(len(base)))
    assert len(read) == len(set(read)) <= 2 * 4 + (0 if changes == {"pe": False} else 2 * len(base.classes))
    wanted = needed_images(base.labels, replace(SETTINGS, **changes), partner=False)
    assert wanted is None  # as nothing counts as few enough here
    monkeypatch.setattr(module, "MOST", 1.0)
    np.testing.assert_array_equal(needed_images(base.labels, replace(SETTINGS, **changes), partner=False), sorted(read))


def test_one_that_cannot_be_read_makes_all_be_decoded(counted, monkeypatch):
    base, go = counted
    taken = int(needed_images(base.labels, SETTINGS, partner=False)[3])

    few, read = go("few", bad=(taken,))
    monkeypatch.setattr(module, "MOST", 0.0)
    all_, _ = go("all", bad=(taken,))

    assert few == all_
    assert set(read) == set(range(len(base)))


def test_long_runs_and_statistics_of_all_images_take_everything(tiny):
    assert needed_images(tiny.labels, replace(SETTINGS, episodes=1000), partner=False) is None
    assert needed_images(tiny.labels, replace(SETTINGS, statistics_images=None), partner=False) is None
    alone, beside = (needed_images(tiny.labels, SETTINGS, partner=partner) for partner in (False, True))
    assert set(alone) < set(beside)
