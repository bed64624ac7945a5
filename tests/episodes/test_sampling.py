import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cplsr.episodes.sampling import EpisodeSampler
from cplsr.errors import InputError

SIZES = st.lists(st.integers(6, 12), min_size=3, max_size=7)


def label_vector(sizes, seed=0):
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))


def images_of(episodes):
    return np.concatenate([episodes.support, episodes.query], axis=2)


@settings(deadline=None, max_examples=40)
@given(sizes=SIZES, shot=st.integers(1, 3), query=st.integers(1, 3), seed=st.integers(0, 2**64 - 1))
def test_classes_and_images_are_distinct_and_rightly_labeled(sizes, shot, query, seed):
    labels = label_vector(sizes)

    episodes = EpisodeSampler(labels, way=3, shot=shot, query=query, seed=seed).draw(20)

    assert episodes.support.shape == (20, 3, shot)
    assert episodes.query.shape == (20, 3, query)
    assert (episodes.way, episodes.shot, len(episodes)) == (3, shot, 20)
    np.testing.assert_array_equal(
        labels[images_of(episodes)], np.broadcast_to(episodes.classes[:, :, None], (20, 3, shot + query))
    )
    for episode in range(20):
        assert len(set(episodes.classes[episode].tolist())) == 3
        assert len(set(images_of(episodes)[episode].ravel().tolist())) == 3 * (shot + query)


def test_golden_values():
    labels = [name for name in "abcdefg" for _ in range(9)]

    episodes = EpisodeSampler(labels, way=3, shot=2, query=2, seed=2024).draw(2)

    assert episodes.classes.tolist() == GOLDEN_CLASSES
    assert episodes.support.tolist() == GOLDEN_SUPPORT
    assert episodes.query.tolist() == GOLDEN_QUERY


GOLDEN_CLASSES = [["b", "f", "d"], ["c", "b", "g"]]
GOLDEN_SUPPORT = [[[14, 17], [52, 49], [33, 34]], [[23, 21], [15, 14], [59, 56]]]
GOLDEN_QUERY = [[[16, 9], [50, 48], [32, 30]], [[22, 20], [16, 13], [57, 62]]]


def test_golden_values_of_uneven_queries():
    labels = [name for name in "abcdefg" for _ in range(9)]

    episodes = EpisodeSampler(labels, way=3, shot=2, query=2, seed=2024, queries="dirichlet").draw(2)

    assert episodes.classes.tolist() == GOLDEN_CLASSES
    assert episodes.support.tolist() == GOLDEN_SUPPORT
    assert episodes.targets.tolist() == GOLDEN_TARGETS
    assert episodes.query.tolist() == GOLDEN_UNEVEN


GOLDEN_TARGETS = [[0, 1, 2, 2, 2, 2], [0, 0, 0, 1, 1, 2]]
GOLDEN_UNEVEN = [[16, 50, 32, 30, 28, 27], [22, 20, 24, 16, 13, 57]]


@pytest.mark.parametrize("groups", [None, 2])
@settings(deadline=None, max_examples=25)
@given(sizes=SIZES, shot=st.integers(1, 3), query=st.integers(1, 3), seed=st.integers(0, 2**64 - 1))
def test_uneven_queries_are_distinct_rightly_labeled_and_as_many_in_all(groups, sizes, shot, query, seed):
    sizes = [size + (4 if groups else 0) for size in sizes]  # groups leave fewer images to ask about
    labels = label_vector(sizes)
    options = {"way": 3, "shot": shot, "query": query, "seed": seed}
    if groups:
        options["groups"] = np.arange(len(labels)) // groups

    episodes = EpisodeSampler(labels, **options, queries="dirichlet").draw(20)

    assert episodes.query.shape == episodes.asked.shape == episodes.truth.shape == (20, 3 * query)
    np.testing.assert_array_equal(
        labels[episodes.query], np.take_along_axis(episodes.classes, episodes.targets, axis=1)
    )
    for number in range(20):
        images = [*episodes.support[number].ravel(), *episodes.query[number]]
        assert len(set(images)) == 3 * (shot + query)
        if groups:
            own = {image // groups for image in episodes.support[number].ravel()}
            assert not own & {image // groups for image in episodes.query[number]}
    if not groups:
        balanced = EpisodeSampler(labels, **options).draw(20)
        np.testing.assert_array_equal(balanced.support, episodes.support)
        np.testing.assert_array_equal(balanced.classes, episodes.classes)
    part = episodes[3:5]
    np.testing.assert_array_equal(part.truth, episodes.truth[3:5])


def test_shares_of_uneven_queries_are_those_of_a_dirichlet_distribution():
    labels = np.repeat(np.arange(6), 200)

    episodes = EpisodeSampler(labels, way=5, shot=1, query=15, queries="dirichlet").draw(4000)

    counts = (episodes.targets[:, :, None] == np.arange(5)).sum(axis=1)
    # A share has mean 1/5 and variance (1/5 · 4/5) / 11, for all places alike.
    np.testing.assert_allclose(counts.mean(axis=0), 15, atol=0.5)
    np.testing.assert_allclose(counts.std(axis=0) / 75, (4 / 25 / 11) ** 0.5, rtol=0.04)
    assert stats.kstest(counts[:, 2] / 75, stats.beta(2, 8).cdf).statistic < 0.05


def test_a_small_class_leaves_its_share_to_the_others():
    labels = np.repeat(np.arange(3), [7, 7, 300])

    episodes = EpisodeSampler(labels, way=3, shot=2, query=5, queries="dirichlet").draw(300)

    for class_, most in ((0, 5), (1, 5), (2, 15)):
        asked = (labels[episodes.query] == class_).sum(axis=1)
        assert asked.max() <= most
    assert (labels[episodes.query] == 2).sum(axis=1).min() >= 5


def test_even_queries_stand_class_by_class():
    episodes = EpisodeSampler(np.arange(60) % 6, way=3, query=2).draw(4)

    assert episodes.truth.tolist() == [[0, 0, 1, 1, 2, 2]] * 4
    np.testing.assert_array_equal(episodes.asked.reshape(4, 3, 2), episodes.query)


def test_another_process_draws_the_same():
    code = (
        "import numpy as np; from cplsr.episodes.sampling import EpisodeSampler; np.random.seed(7); "
        "e = EpisodeSampler(np.arange(60) % 6, way=4, shot=1, query=2, seed=5).draw(3); print(e.query.ravel().tolist())"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    here = EpisodeSampler(np.arange(60) % 6, way=4, shot=1, query=2, seed=5).draw(3)
    assert answer.strip() == str(here.query.ravel().tolist())


@pytest.mark.parametrize("groups", [None, np.arange(3000) // 2])
def test_an_episode_depends_on_its_number_not_on_how_many_are_drawn(groups):
    sampler = EpisodeSampler(np.arange(3000) % 10, way=5, shot=1, query=3, seed=1, groups=groups)
    many = sampler.draw(2600)

    few = sampler.draw(70, first=1230)  # across the edge between two chunks

    np.testing.assert_array_equal(few.support, many[1230:1300].support)
    np.testing.assert_array_equal(few.query, many[1230:1300].query)


def test_seeds_give_different_episodes():
    drawn = {EpisodeSampler(np.arange(100) % 5, seed=seed, query=3).draw(5).query.tobytes() for seed in range(10)}

    assert len(drawn) == 10


def test_only_equality_of_labels_matters():
    codes = label_vector([20] * 6)
    names = [("zebra", 3.5, None, ("a", 1), "ant", -7)[code] for code in codes]

    by_code = EpisodeSampler(codes, query=5).draw(30)
    by_name = EpisodeSampler(names, query=5).draw(30)

    np.testing.assert_array_equal(by_code.query, by_name.query)
    assert by_name.classes[0, 0] == names[by_name.support[0, 0, 0]]


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_classes_and_images_are_uniform(seed):
    sizes = np.array([12, 8, 20, 9, 16, 11])
    labels = label_vector(sizes, seed)

    episodes = EpisodeSampler(labels, way=3, shot=2, query=5, seed=seed).draw(20_000)

    # Classes of one episode exclude each other, so each place of the way axis is tested on its own.
    for place in range(3):
        assert stats.chisquare(np.bincount(episodes.classes[:, place], minlength=6)).pvalue > 1e-4
    first_place = episodes.classes[:, 0]
    for images in (episodes.support[:, 0, 0], episodes.support[:, 0, 1], episodes.query[:, 0, 4]):
        for class_ in range(6):
            seen = np.bincount(images[first_place == class_], minlength=len(labels))[labels == class_]
            assert stats.chisquare(seen).pvalue > 1e-4


def test_a_class_with_too_few_images_is_left_out_with_a_warning():
    labels = ["cat"] * 4 + ["dog"] * 5 + ["cow"] * 6

    with pytest.warns(UserWarning, match=r"'cat' \(4\)"):
        sampler = EpisodeSampler(labels, way=2, shot=2, query=3)

    assert sampler.left_out == (("cat", 4),)
    assert set(sampler.draw(50).classes.ravel().tolist()) == {"dog", "cow"}


def test_nothing_is_said_when_every_class_is_used():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EpisodeSampler(["cat"] * 4 + ["dog"] * 4, way=2, shot=1, query=3)


@pytest.mark.parametrize(
    ("labels", "settings_", "message"),
    [
        (["a"] * 9 + ["b"] * 9, {"way": 3, "query": 2}, "only 2 of 2 classes .* lower way to 2"),
        (["a"] * 9 + ["b"] * 4, {"way": 2, "query": 15}, r"1 shot \+ 15 query = 16 .* query = 4 - 1 = 3 would work"),
        (["a"] * 9 + ["b"] * 1, {"way": 2, "query": 2}, "lower shot, query or way, or add images"),
        ([], {"way": 2}, "only 0 of 0 classes"),
        (["a"] * 9, {"way": 0}, "way is 0"),
        (["a"] * 9, {"shot": 0}, "shot is 0"),
        (["a"] * 9, {"query": -1}, "query is -1"),
        (["a"] * 9, {"seed": -1}, "seed is -1"),
        (["a"] * 9, {"seed": 2**64}, "seed is"),
        (np.array([["a"], 1], dtype=object), {}, "hashable"),
        (["a"] * 9, {"way": 1, "query": 2, "groups": [1, 2]}, "2 groups were given for 9 images"),
        (["a"] * 9, {"way": 1, "query": 2, "groups": [1] * 9}, "from separate groups, but only 0 of 1"),
    ],
)
def test_impossible_requests_are_explained(labels, settings_, message):
    with pytest.raises(InputError, match=message):
        EpisodeSampler(labels, **settings_)


def test_negative_counts_are_refused():
    with pytest.raises(InputError, match="at least 0"):
        EpisodeSampler([0] * 20, way=1).draw(-1)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000), shot=st.integers(1, 3), most=st.integers(1, 4))
def test_support_and_query_never_share_a_group(seed, shot, most):
    generator = np.random.default_rng(seed)
    labels = label_vector([24] * 4, seed)
    groups = np.repeat(np.arange(96), most)[generator.permutation(96)]  # groups reach across classes

    episodes = EpisodeSampler(labels, way=3, shot=shot, query=4, seed=seed, groups=groups).draw(30)

    for support, query, classes in zip(episodes.support, episodes.query, episodes.classes, strict=True):
        assert not set(groups[support.ravel()]) & set(groups[query.ravel()])
        assert len(set(query.ravel().tolist())) == 12
        assert len(set(support.ravel().tolist())) == 3 * shot
        np.testing.assert_array_equal(labels[query], np.repeat(classes[:, None], 4, axis=1))


@pytest.mark.parametrize("seed", [0, 1])
def test_queries_are_uniform_over_what_the_groups_allow(seed):
    labels = np.zeros(8, dtype=int)
    groups = np.array([0, 1, 0, 2, 3, 0, 3, 4])

    episodes = EpisodeSampler(labels, way=1, shot=1, query=2, seed=seed, groups=groups).draw(40_000)

    support = episodes.support[:, 0, 0]
    assert stats.chisquare(np.bincount(support)).pvalue > 1e-4
    for image in range(8):
        allowed = groups != groups[image]
        for place in range(2):
            seen = np.bincount(episodes.query[support == image, 0, place], minlength=8)
            assert seen[~allowed].sum() == 0
            assert stats.chisquare(seen[allowed]).pvalue > 1e-4


def test_an_episode_that_does_not_work_out_is_drawn_again():
    # Group 0 holds most of the class: taking it as support leaves too few queries.
    groups = np.array([0] * 5 + [1, 2, 3])

    episodes = EpisodeSampler([0] * 8, way=1, shot=1, query=4, groups=groups).draw(200)

    assert set(episodes.support.ravel().tolist()) == {5, 6, 7}


def test_a_class_whose_groups_cannot_be_split_is_left_out():
    labels = ["a"] * 6 + ["b"] * 6
    groups = ["p"] * 3 + ["q"] * 3 + ["r"] * 5 + ["s"]

    with pytest.warns(UserWarning, match=r"'b' \(6\)"):
        sampler = EpisodeSampler(labels, way=1, shot=2, query=3, groups=groups)

    assert sampler.classes == ("a",)


def test_groups_that_never_come_apart_are_an_error():
    # Each class alone can be split, but the two hold the same two patients in opposite proportions.
    labels = [0] * 4 + [1] * 4
    groups = [0, 0, 0, 1, 1, 1, 1, 0]

    with pytest.raises(InputError, match="attempts"):
        EpisodeSampler(labels, way=2, shot=1, query=3, groups=groups).draw(3)
