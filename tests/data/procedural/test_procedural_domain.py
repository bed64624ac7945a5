import hashlib
import itertools
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.data.procedural import DOMAINS, make_domain
from cplsr.errors import InputError

TARGETS = tuple(name for name in DOMAINS if name != "base")

# Brightness of picture 5 of the class a third of the way down the list, averaged over 8 x 8 blocks.
THUMBNAILS = {
    "base": (
        "0f1e2d3e281c252e162126242b2b3723252730627a655e3750404b5057795826"
        "4b526849444a372c4d56695d60737a5a5664696779839c7b5d6d7f8582848669"
    ),
    "radiograph": (
        "b1ab939687888b82c3be99c6b5729694cfb6a4b3904557729ea474a086434463"
        "6d4e4f9c8d443d52684f50b6cb7c3749747a79c0cb98564779a89fb6aca09546"
    ),
    "dermoscopy": (
        "c8c4d5dce2e5e4e1c4c6c8cfd9d5d7d9b8bbae94a2c9d1cfa1a66d676d9fbabf"
        "9d88605f6785aab792895f5f5c8da9b281948278879c9ca574838f949a93989b"
    ),
    "landcover": (
        "6151545a564f6961676a626b5a566c6c6e6f7478594c6e6c887472706e5f6565"
        "8070675f6060686b6b655e58706a6c6b46444f58575e625f4243534b4c505053"
    ),
    "leaf": (
        "c1ccd1dfe7ebf0f4c1cfd9d1ddecf2f2bd95aaa8c6ecf2f4c0b18fa6b2c5f2f4"
        "bcac9ab2ace1f2f4b4ad9ea9bacbeef3bbc6b1cbe1dee4efb2c0cbd5dfe3edef"
    ),
}


@pytest.mark.parametrize(
    ("name", "split", "classes", "each"),
    [
        ("base", "train", 64, 300),
        ("base", "val", 16, 60),
        ("radiograph", "train", 11, 60),
        ("dermoscopy", "train", 10, 60),
        ("landcover", "train", 13, 60),
        ("leaf", "train", 38, 60),
    ],
)
def test_classes_and_counts(name: str, split: str, classes: int, each: int) -> None:
    domain = make_domain(name, split)
    assert domain.name == name
    assert len(domain.classes) == len(set(domain.classes)) == classes
    assert domain.images_per_class == each
    assert len(domain) == classes * each
    assert domain.labels.dtype == np.int64
    assert np.bincount(domain.labels).tolist() == [each] * classes


def test_validation_classes_are_not_training_classes() -> None:
    train, val = make_domain("base").classes, make_domain("base", "val").classes
    assert not set(train) & set(val)
    assert not {name.split()[-1] for name in train} & {name.split()[-1] for name in val}  # nor share a silhouette


@pytest.mark.parametrize("name", DOMAINS)
def test_every_class_draws_without_a_warning(name: str) -> None:
    for split in DOMAINS[name].splits:
        domain = make_domain(name, split, images_per_class=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pictures = np.stack([domain.render(index) for index in range(len(domain))])
        assert pictures.shape[1:] == (96, 96, 3)
        assert pictures.dtype == np.uint8
        assert (pictures.std(axis=(1, 2, 3)) > 8).all()  # nothing black, white or flat


@pytest.mark.parametrize("name", DOMAINS)
def test_coarse_look(name: str) -> None:
    domain = make_domain(name)
    picture = domain.render(len(domain.classes) // 3 * domain.images_per_class + 5)
    blocks = picture.reshape(8, 12, 8, 12, 3).mean(axis=(1, 3, 4))
    expected = np.frombuffer(bytes.fromhex(THUMBNAILS[name]), np.uint8).reshape(8, 8)
    np.testing.assert_allclose(blocks, expected, atol=2)


@pytest.mark.parametrize("name", DOMAINS)
def test_painters_differ_by_more_than_chance(name: str) -> None:
    """With the same random numbers two classes must still not give the same picture."""
    for painters in DOMAINS[name].splits.values():
        pictures = {title: paint(np.random.default_rng(5)) for title, paint in painters.items()}
        for (one, first), (other, second) in itertools.combinations(pictures.items(), 2):
            assert np.abs(first - second).mean() > 1e-3, (one, other)


@settings(deadline=None, max_examples=10)
@given(st.data())
def test_a_picture_depends_on_its_identity_alone(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(DOMAINS)))
    domain = make_domain(name, seed=data.draw(st.integers(0, 9)), images_per_class=3)
    index = data.draw(st.integers(0, len(domain) - 1))
    before = np.random.get_state()[1].copy()
    picture = domain.render(index)
    assert np.array_equal(np.random.get_state()[1], before)  # the global stream is not touched
    domain.render(data.draw(st.integers(0, len(domain) - 1)))
    assert np.array_equal(pickle.loads(pickle.dumps(domain)).render(index), picture)
    more = make_domain(name, seed=domain.seed, images_per_class=7)
    assert np.array_equal(more.render(index // 3 * 7 + index % 3), picture)


def test_seeds_instances_and_classes_give_different_pictures() -> None:
    domain, reseeded = make_domain("leaf"), make_domain("leaf", seed=1)
    first = domain.render(0)
    for other in (domain.render(1), domain.render(60), reseeded.render(0)):
        assert np.abs(first.astype(int) - other).mean() > 5


def test_another_process_draws_the_same_pictures() -> None:
    program = (
        "import hashlib, numpy; numpy.random.seed(7)\n"
        "from cplsr.data.procedural import DOMAINS, make_domain\n"
        "for name in reversed(DOMAINS): print(name, hashlib.sha256(make_domain(name).render(77).tobytes()).hexdigest())"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    there = dict(line.split() for line in run.stdout.splitlines())
    here = {name: hashlib.sha256(make_domain(name).render(77).tobytes()).hexdigest() for name in DOMAINS}
    assert there == here


def test_a_pickled_domain_is_small() -> None:
    assert len(pickle.dumps(make_domain("base"))) < 300


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make_domain("moon"), ["'moon'", "radiograph"]),
        (lambda: make_domain("leaf", "val"), ["'val'", "train"]),
        (lambda: make_domain("leaf", images_per_class=0), ["0 images", "at least 1"]),
        (lambda: make_domain("leaf").render(2280), ["2280", "0 to 2279"]),
        (lambda: make_domain("leaf").render(-1), ["-1", "0 to 2279"]),
    ],
)
def test_bad_input_is_answered_with_a_sentence(call, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("name", TARGETS)
def test_raw_pixels_do_not_give_the_classes_away(name: str) -> None:
    """Nearest mean of raw pixels, 5-way 5-shot: well below 60 %, for the structure has to carry the class."""
    shot, query, way = 5, 5, 5
    domain = make_domain(name, images_per_class=shot + query)
    chosen = range(0, len(domain.classes), max(1, len(domain.classes) // 13))
    pixels = np.array(
        [
            [domain.render(label * (shot + query) + i)[::3, ::3].ravel() for i in range(shot + query)]
            for label in chosen
        ],
        np.float32,
    )
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(150):
        classes = pixels[rng.permutation(len(pixels))[:way]]
        classes = classes[:, rng.permutation(shot + query)]
        prototypes = classes[:, :shot].mean(axis=1)
        distances = np.linalg.norm(classes[:, shot:, None] - prototypes, axis=-1)  # (way, query, way)
        hits.append((distances.argmin(axis=-1) == np.arange(way)[:, None]).mean())
    assert np.mean(hits) < 0.5
