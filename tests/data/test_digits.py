"""The bundled handwriting."""

import pickle

import numpy as np
from sklearn.datasets import load_digits

from cplsr.data.digits import open_digits


def test_digits_are_dark_on_white_and_labeled_as_in_the_source() -> None:
    domain = open_digits()
    source = load_digits()
    assert len(domain) == 1797
    assert domain.labels.tolist() == source.target.tolist()
    image = np.asarray(pickle.loads(pickle.dumps(domain.reader))(5))
    assert image.shape == (64, 64)
    small = image.reshape(8, 8, 8, 8).mean(axis=(1, 3))
    assert np.corrcoef(small.ravel(), -source.images[5].ravel())[0, 1] > 0.95
    assert len(set(domain.identities)) == len(domain)
