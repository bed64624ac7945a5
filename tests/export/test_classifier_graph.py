"""What of a fitted classifier goes into a graph."""

import numpy as np
import pytest
import torch

from cplsr.classifier.embedding_classifier import EmbeddingClassifier
from cplsr.errors import InputError
from cplsr.export.to_onnx import head_of


@pytest.mark.parametrize(("head", "parts"), [("prototypes", 1), ("auto", 6), ("lda", 6), ("logistic", 1)])
def test_the_head_gives_the_probabilities_of_the_classifier_and_leaves_empty_classes_out(head, parts):
    generator = np.random.default_rng(0)
    vectors, labels = generator.normal(size=(12, 30)), np.repeat([3, 1, 7], 4)
    classifier = EmbeddingClassifier(head, parts=parts).partial_fit(vectors, labels, classes=[1, 2, 3, 7])
    exported = head_of(classifier)
    assert exported.classes == ("1", "3", "7")
    queries = generator.normal(size=(6, 30))
    wanted = classifier.predict_proba(queries)
    assert np.all(wanted[:, 1] == 0), "the class without vectors"
    read = torch.from_numpy(queries).float() * exported.scale
    scores = read / read.norm(dim=1, keepdim=True) @ exported.weights + exported.offsets
    probabilities = (exported.temperature * scores).softmax(-1)
    np.testing.assert_allclose(probabilities.numpy(), np.delete(wanted, 1, axis=1), atol=1e-5)


def test_a_head_without_weights_is_refused():
    classifier = EmbeddingClassifier("knn").fit(np.eye(6), [0, 0, 0, 1, 1, 1])
    with pytest.raises(InputError, match="the head knn has no weights to export"):
        head_of(classifier)
