"""Domains: selection, class choice, counts and fingerprints."""

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from cplsr.data.domain import Domain
from cplsr.errors import InputError


@dataclass(frozen=True)
class GreyReader:
    """Image i is one pixel of grey value i."""

    def __call__(self, index: int) -> Image.Image:
        return Image.new("L", (1, 1), index)


def make(labels: list[int], classes: tuple[str, ...] = ("ant", "bee", "cow")) -> Domain:
    return Domain(
        name="farm",
        classes=classes,
        labels=np.array(labels, dtype=np.int64),
        identities=tuple(f"{classes[label]}/{number}.png?{number}" for number, label in enumerate(labels)),
        reader=GreyReader(),
        groups=np.array([f"owner {number % 2}" for number in range(len(labels))]),
        flags=("only a few",),
    )


def grey(domain: Domain) -> list[int]:
    return [domain.reader(index).getpixel((0, 0)) for index in range(len(domain))]


def test_counts_follow_the_order_of_the_classes_and_name_empty_ones() -> None:
    assert make([2, 0, 2, 2]).counts() == {"ant": 1, "bee": 0, "cow": 3}
    assert make([2, 0, 2, 2]).without_empty_classes().counts() == {"ant": 1, "cow": 3}


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=30), st.data())
def test_select_twice_is_select_once_with_composed_indices(labels: list[int], data: st.DataObject) -> None:
    domain = make(labels)
    first = data.draw(st.lists(st.integers(0, len(labels) - 1), min_size=1))
    second = data.draw(st.lists(st.integers(0, len(first) - 1)))
    once = domain.select([first[position] for position in second])
    twice = domain.select(first).select(second)
    assert grey(twice) == grey(once) == [first[position] for position in second]
    assert twice.identities == once.identities
    assert twice.labels.tolist() == [labels[first[position]] for position in second]
    assert twice.groups is not None
    assert twice.groups.tolist() == [f"owner {first[position] % 2}" for position in second]
    assert twice.flags == ("only a few",)


def test_only_classes_renumbers_in_the_order_given() -> None:
    chosen = make([0, 1, 2, 1]).only_classes(["cow", "bee"])
    assert chosen.classes == ("cow", "bee")
    assert chosen.labels.tolist() == [1, 0, 1]
    assert grey(chosen) == [1, 2, 3]


def test_an_unknown_class_is_an_error_that_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match="farm has no class 'cown': did you mean 'cow'"):
        make([0]).only_classes(["cown"])


def test_fingerprint_changes_with_every_part_and_with_nothing_else() -> None:
    domain = make([0, 1, 2])
    others = [
        make([0, 1, 1]),
        replace(domain, classes=("ant", "bee", "cat")),
        replace(domain, identities=(*domain.identities[:2], "cow/2.png?3")),
        domain.select([0, 2, 1]),
    ]
    prints = {other.fingerprint for other in (domain, *others)}
    assert len(prints) == 5
    assert replace(domain, name="elsewhere", flags=()).fingerprint == domain.fingerprint


def test_fingerprint_does_not_confuse_where_one_string_ends_and_the_next_begins() -> None:
    first = replace(make([0, 0]), identities=("ab", "c"))
    assert first.fingerprint != replace(first, identities=("a", "bc")).fingerprint


def test_file_names_that_are_not_text_have_a_fingerprint() -> None:
    assert replace(make([0]), identities=("ant/\udcff.png",)).fingerprint != make([0]).fingerprint


def test_labels_cannot_be_changed_and_the_given_array_stays_free() -> None:
    given_labels = np.array([0, 1], dtype=np.int64)
    domain = replace(make([0, 1]), labels=given_labels)
    with pytest.raises(ValueError, match="read-only"):
        domain.labels[0] = 1
    given_labels[0] = 1
    assert domain.labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"identities": ("a",)}, "1 identities with 2 labels"),
        ({"labels": np.array([0, 3], dtype=np.int64)}, "labels run from 0 to 3"),
        ({"labels": np.array([-1, 0], dtype=np.int64)}, "labels run from -1"),
        ({"classes": ("ant", "ant")}, "class names must differ"),
    ],
)
def test_parts_that_do_not_fit_are_refused(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(make([0, 1]), groups=None, **change)


def test_a_domain_pickles_with_its_reader() -> None:
    domain = make([0, 1, 2]).select([2, 0])
    copy = pickle.loads(pickle.dumps(domain))
    assert copy.fingerprint == domain.fingerprint
    assert grey(copy) == [2, 0]


def test_image_names_leave_the_version_out() -> None:
    assert make([1]).image_name(0) == "bee/0.png"
    assert replace(make([1]), identities=("what?.png?12-3",)).image_name(0) == "what?.png"
