import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cplsr.episodes.streams import below, distinct_below, philox_words

PHILOX_ROUNDS = 10
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
MASK = 2**64 - 1


def philox_block(counter: int, key: tuple[int, int]) -> list[int]:
    """Philox 4x64-10 as its authors define it, in whole numbers of any size."""
    x = [counter >> (64 * i) & MASK for i in range(4)]
    k = list(key)
    for _ in range(PHILOX_ROUNDS):
        a, b = MULTIPLIERS[0] * x[0], MULTIPLIERS[1] * x[2]
        x = [b >> 64 ^ x[1] ^ k[0], b & MASK, a >> 64 ^ x[3] ^ k[1], a & MASK]
        k = [(k[0] + WEYL[0]) & MASK, (k[1] + WEYL[1]) & MASK]
    return x


def shuffle_literally(words: list[int], size: int) -> list[int]:
    """A Fisher-Yates shuffle of the whole array, stopped after as many steps as there are words."""
    array = list(range(size))
    for step, word in enumerate(words):
        target = step + (word * (size - step) >> 32)
        array[step], array[target] = array[target], array[step]
    return array[: len(words)]


def test_words_are_philox_by_its_definition():
    words = philox_words(seed=2**64 - 3, rows=2, words=10, first=5, stream=9)

    blocks = [philox_block(counter + 1, (2**64 - 3, 9)) for counter in range(5 * 2, 7 * 2)]
    halves = [half for block in blocks for word in block for half in (word & 0xFFFFFFFF, word >> 32)]
    assert words.tolist() == [halves[:10], halves[16:26]]


def test_rows_do_not_depend_on_how_many_are_asked_for():
    table = philox_words(seed=3, rows=50, words=11)

    np.testing.assert_array_equal(philox_words(seed=3, rows=20, words=11, first=30), table[30:])


def test_streams_and_seeds_differ():
    tables = [philox_words(seed, 4, 8, stream=stream).tobytes() for seed in range(3) for stream in range(3)]

    assert len(set(tables)) == 9


@given(word=st.integers(0, 2**32 - 1), bound=st.integers(1, 2**31 - 1))
def test_below_is_the_upper_half_of_the_product(word, bound):
    assert below(np.array([word], dtype=np.uint32), np.array([bound])).item() == word * bound >> 32


@settings(deadline=None, max_examples=60)
@given(data=st.data(), draws=st.integers(1, 8), seed=st.integers(0, 2**32))
def test_distinct_below_is_a_shuffle(data, draws, seed):
    sizes = data.draw(st.lists(st.integers(draws, draws + 6), min_size=1, max_size=8))
    words = np.random.default_rng(seed).integers(0, 2**32, (draws, len(sizes)), dtype=np.uint32)

    drawn = distinct_below(words, np.array(sizes))

    expected = [shuffle_literally(words[:, row].tolist(), size) for row, size in enumerate(sizes)]
    assert drawn.T.tolist() == expected


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_ordered_choice_is_equally_likely(seed):
    words = np.ascontiguousarray(philox_words(seed, rows=60_000, words=3).T)

    first, second, third = distinct_below(words, np.full(60_000, 4))

    observed = np.bincount(first * 16 + second * 4 + third, minlength=64)
    possible = [a * 16 + b * 4 + c for a in range(4) for b in range(4) for c in range(4) if len({a, b, c}) == 3]
    assert observed.sum() == observed[possible].sum()
    assert stats.chisquare(observed[possible]).pvalue > 1e-4
