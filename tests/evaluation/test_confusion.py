import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.evaluation.confusion import confusion_counts, recall


@settings(deadline=None, max_examples=30)
@given(
    episodes=st.integers(0, 6),
    way=st.integers(1, 4),
    queries=st.integers(1, 12),
    more=st.integers(0, 3),
    seed=st.integers(0, 1000),
)
def test_counts_against_a_literal_loop(episodes, way, queries, more, seed):
    generator = np.random.default_rng(seed)
    count = way + more
    classes = np.array([generator.permutation(count)[:way] for _ in range(episodes)], dtype=np.int64)
    classes = classes.reshape(episodes, way)
    truth, predictions = generator.integers(0, way, (2, episodes, queries))
    expected = np.zeros((count, count), dtype=np.int64)
    for episode in range(episodes):
        for own, answer in zip(truth[episode], predictions[episode], strict=True):
            expected[classes[episode, own], classes[episode, answer]] += 1

    counts = confusion_counts(classes, truth, predictions, count)

    np.testing.assert_array_equal(counts, expected)
    shares = [row[i] / sum(row) if sum(row) else 0 for i, row in enumerate(expected.tolist())]
    np.testing.assert_allclose(recall(counts), shares)
