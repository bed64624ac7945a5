import numpy as np

from cplsr.episodes.sampling import EpisodeSampler
from cplsr.evaluation import benchmark
from cplsr.evaluation.benchmark import episode_logits
from cplsr.evaluation.calibration import bin_sums
from cplsr.evaluation.confusion import confusion_counts
from cplsr.evaluation.scores import score_episodes


def test_one_pass_gives_what_separate_passes_give(monkeypatch):
    monkeypatch.setattr(benchmark, "EPISODES_PER_CHUNK", 7)
    generator = np.random.default_rng(0)
    labels = np.arange(120) % 8
    vectors = (generator.normal(size=(8, 6))[labels] + generator.normal(size=(120, 6))).astype(np.float32)
    episodes = EpisodeSampler(labels, way=4, shot=2, query=5).draw(40)

    scores = score_episodes(episode_logits(vectors, episodes), episodes, 8)

    parts = list(episode_logits(vectors, episodes))
    assert len(parts) == 6
    right = np.concatenate([part.correct() for part in parts])
    np.testing.assert_array_equal(scores.accuracies, right.mean(axis=(1, 2)))
    logits = np.concatenate([part.logits for part in parts])
    predictions = np.concatenate([part.predictions() for part in parts])
    np.testing.assert_array_equal(scores.confusion, confusion_counts(episodes.classes, predictions, 8))
    np.testing.assert_allclose(scores.calibration, bin_sums(logits, right), rtol=1e-6)
    assert 0.3 < right.mean() < 0.95
