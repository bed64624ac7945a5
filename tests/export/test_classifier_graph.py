"""What of a fitted classifier goes into a graph."""

import numpy as np
import torch

from cplsr.classifier.prototype_classifier import PrototypeClassifier
from cplsr.episodes.prototypes import cosine_logits
from cplsr.export.classifier_graph import head_of


def test_the_head_gives_the_probabilities_of_the_classifier_and_leaves_empty_classes_out():
    generator = np.random.default_rng(0)
    vectors, labels = generator.normal(size=(12, 5)), np.repeat([3, 1, 7], 4)
    classifier = PrototypeClassifier().partial_fit(vectors, labels, classes=[1, 2, 3, 7])
    head = head_of(classifier)
    assert head.classes == ("1", "3", "7")
    queries = generator.normal(size=(6, 5))
    wanted = classifier.predict_proba(queries)
    assert np.all(wanted[:, 1] == 0), "the class without vectors"
    logits = cosine_logits(torch.from_numpy(queries).float(), head.prototypes, head.temperature)
    np.testing.assert_allclose(logits.softmax(-1).numpy(), np.delete(wanted, 1, axis=1), atol=1e-5)
