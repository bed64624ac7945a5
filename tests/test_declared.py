from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from cplsr.declared import Declared, above, between, read_record
from cplsr.errors import InputError


@dataclass(frozen=True)
class Example(Declared):
    way: Annotated[int, between(2, 1000)] = 5
    lr: Annotated[float, above(0, 1000)] = 1e-3
    prototype: Literal["mean", "median"] = "mean"
    online: bool = False
    images: Annotated[int, between(2, 10)] | None = None
    shots: tuple[Annotated[int, between(1, 100)], ...] = (1, 5)
    out: Path | None = None


@dataclass(frozen=True)
class Line:
    shot: int
    accuracy: float


@dataclass(frozen=True)
class Record:
    rows: tuple[Line, ...]
    settings: dict[str, Any]
    ci95: float | None = None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"way": 1}, "way is 1: give a whole number of at least 2"),
        ({"way": 10**30}, f"way is {10**30}: give a whole number of at most 1000"),
        ({"way": True}, "way is True: a whole number was wanted, not true or false"),
        ({"lr": float("nan")}, "lr is nan: give a number above 0"),
        ({"lr": float("inf")}, "lr is inf: give a number of at most 1000"),
        ({"prototype": "mode"}, "prototype is 'mode': give 'mean' or 'median'"),
        ({"online": 1}, "online is 1: true or false was wanted, not a whole number"),
        ({"images": 1}, "images is 1: give a whole number of at least 2"),
        ({"shots": [1, 0]}, r"shots is \[1, 0\]: give a whole number of at least 1, in \[1\]"),
        ({"shots": 1}, "shots is 1: a list was wanted, not a whole number"),
        ({"images": "all"}, "images is 'all': a whole number or nothing was wanted, not text"),
        ({"out": 3}, "out is 3: path was wanted, not a whole number"),
    ],
)
def test_what_does_not_fit_is_told_in_a_sentence(given, sentence):
    with pytest.raises(InputError, match=f"^{sentence}$"):
        Example(**given)


def test_whole_numbers_become_floats_lists_tuples_and_text_a_path():
    example = Example(lr=1, shots=[1, 2], out="somewhere")
    assert (example.lr, example.shots, example.out) == (1.0, (1, 2), Path("somewhere"))
    assert isinstance(example.lr, float)


def test_numbers_of_numpy_count_as_numbers():
    example = Example(way=np.int64(3), lr=np.float32(0.5))
    assert (example.way, example.lr) == (3, 0.5)
    assert (type(example.way), type(example.lr)) == (int, float)


def test_a_table_gives_settings_by_name_and_a_misspelt_one_is_told_with_the_right_one():
    assert Example.from_table({"way": 3, "online": True}, "recipe.toml") == Example(way=3, online=True)
    with pytest.raises(InputError, match=r"recipe.toml has an unknown setting 'wai': did you mean 'way'\?"):
        Example.from_table({"wai": 3}, "recipe.toml")
    with pytest.raises(InputError, match=r"recipe.toml: way is 0: give"):
        Example.from_table({"way": 0}, "recipe.toml")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            '{"rows": [{"shot": "x", "accuracy": 1}], "settings": {}}',
            r"number was wanted, not text, in rows\[0\]",
        ),
        ('{"rows": [{"accuracy": 1}], "settings": {}}', r"missing required field shot, in rows\[0\]"),
        ('{"rows": {}, "settings": {}}', "a list was wanted, not a table, in rows"),
        ('{"rows": [{"shot": 1, "accuracy": NaN}], "settings": {}}', "is no JSON or is damaged"),
        ('{"rows": [], "settings": []}', "a table was wanted, not a list, in settings"),
        ("[" * 100_000, "results"),
        ('{"rows": [', "is no JSON or is damaged"),
    ],
)
def test_a_damaged_file_is_told_with_the_place(tmp_path, content, sentence):
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(InputError, match=sentence) as caught:
        read_record(path, Record, "results (written by `cplsr evaluate`)")
    assert str(path) in str(caught.value)


def test_a_file_is_read_as_its_record_and_what_later_versions_add_is_passed_over(tmp_path):
    path = tmp_path / "results.json"
    path.write_text('{"rows": [{"shot": 1, "accuracy": 2}], "settings": {"a": [1]}, "later": true}')
    assert read_record(path, Record, "results") == Record((Line(1, 2.0),), {"a": [1]})
    with pytest.raises(InputError, match="cannot be read"):
        read_record(tmp_path / "absent.json", Record, "results")
