import numpy as np
import pytest

from cplsr.episodes.sampling import EpisodeSampler
from cplsr.evaluation import scoring
from cplsr.evaluation.calibration import bin_sums
from cplsr.evaluation.confusion import confusion_counts
from cplsr.evaluation.scores import score_episodes
from cplsr.evaluation.scoring import Scoring


@pytest.mark.parametrize("queries", ["balanced", "dirichlet"])
def test_one_pass_gives_what_separate_passes_give(monkeypatch, queries):
    monkeypatch.setattr(scoring, "EPISODES_PER_CHUNK", 7)
    generator = np.random.default_rng(0)
    labels = np.arange(120) % 8
    vectors = (generator.normal(size=(8, 6))[labels] + generator.normal(size=(120, 6))).astype(np.float32)
    episodes = EpisodeSampler(labels, way=4, shot=2, query=5, queries=queries).draw(40)

    scores = score_episodes(Scoring(vectors).scores(episodes), episodes, 8)

    parts = list(Scoring(vectors).scores(episodes))
    assert len(parts) == 6
    predictions = np.concatenate([part.predictions() for part in parts])
    right = labels[episodes.asked] == np.take_along_axis(episodes.classes, predictions, axis=1)
    np.testing.assert_array_equal(scores.accuracies, right.mean(axis=1))
    np.testing.assert_array_equal(scores.confusion, confusion_counts(episodes.classes, episodes.truth, predictions, 8))
    logits = np.concatenate([part.scores for part in parts])
    np.testing.assert_allclose(scores.calibration, bin_sums(logits, right), rtol=1e-6)
    assert 0.3 < right.mean() < 0.95
