"""Procedural domains behind the common interface."""

import pickle

import numpy as np

from cplsr.data.procedural import make_domain
from cplsr.data.rendered import open_procedural


def test_images_are_those_of_the_procedural_domain() -> None:
    domain = open_procedural("base")
    pictures = make_domain("base")
    assert domain.classes == pictures.classes
    assert domain.labels.tolist() == pictures.labels.tolist()
    assert len(set(domain.identities)) == len(domain) == len(pictures)
    for index in (0, 301):
        assert domain.image_name(index) == f"base/{domain.classes[domain.labels[index]]}/{index % 300}"
        np.testing.assert_array_equal(np.asarray(domain.reader(index)), pictures.render(index))


def test_base_knows_its_validation_split() -> None:
    domain = pickle.loads(pickle.dumps(open_procedural("base")))
    validation = domain.validation()
    assert validation.name == "base@val"
    assert not set(validation.classes) & set(domain.classes)
    assert validation.validation is None


def test_another_seed_has_other_identities() -> None:
    assert open_procedural("base").fingerprint == open_procedural("base").fingerprint
    assert open_procedural("base").fingerprint != open_procedural("base", seed=1).fingerprint
