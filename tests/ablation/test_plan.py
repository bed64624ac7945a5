"""Rows become runs; what is wrong with a row is said before anything runs."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cplsr.ablation.plan import Candidate, choose_runs, plan_runs, read_rows, slug
from cplsr.errors import InputError
from cplsr.settings.training import TrainingSettings

RECIPE = Path(__file__).parents[2] / "src" / "cplsr" / "recipes" / "ablation_mini.toml"


def planned(tables, **options):
    return plan_runs(read_rows(tables), TrainingSettings(), **{"shots": [5], "seeds": [0], **options})


def test_every_row_at_every_shot_and_seed_with_its_own_settings():
    tables = {
        "A": {"adapter": "soft_prompts", "adapter_options": {"length": 4}, "lr": 1, "pe": False},
        "f": {"adapter": "frozen"},
    }
    runs = planned(tables, shots=[1, 5], seeds=[3, 4])
    assert [(run.row, run.settings.shot, run.settings.seed) for run in runs] == [
        *(("A", 1, 3), ("A", 1, 4), ("A", 5, 3), ("A", 5, 4)),
        *(("f", 1, 3), ("f", 1, 4), ("f", 5, 3), ("f", 5, 4)),
    ]
    assert runs[0].adapter == "soft_prompts"
    assert runs[0].adapter_options == {"length": 4}
    assert (runs[0].settings.lr, runs[0].settings.pe, runs[0].settings.sst) == (1.0, False, True)
    assert isinstance(runs[0].settings.lr, float)
    assert runs[4].frozen
    assert not runs[0].frozen
    assert runs[1].name == "a-1shot-seed4"
    assert runs[1].title == "A, 1-shot, seed 4"


def test_rows_without_an_adapter_take_the_common_one():
    rows = read_rows({"A": {}, "B": {"adapter": "residual"}}, Candidate(adapter="lora", adapter_options={"rank": 2}))
    assert [(row.adapter, row.adapter_options) for row in rows] == [("lora", {"rank": 2}), ("residual", {})]


def test_shared_own_and_both_rates():
    tables = {"A": {"lr_own": 1e-3}, "B": {"lr": 1e-4}, "frozen": {"adapter": "frozen", "lr_own": 1}}

    def rates(**options):
        return [(run.row, run.settings.lr) for run in planned(tables, **options)]

    assert rates() == [("A", 1e-5), ("B", 1e-4), ("frozen", 1e-5)]
    assert rates(rates="own") == [("A, own rate", 1e-3), ("B", 1e-4), ("frozen", 1e-5)]
    assert rates(rates="both") == [("A", 1e-5), ("A, own rate", 1e-3), ("B", 1e-4), ("frozen", 1e-5)]
    assert rates(rates="own", own_rates={"A": 0.5, "B": 0.25})[:2] == [("A, own rate", 0.5), ("B, own rate", 0.25)]


def test_only_some_rows():
    runs = planned({"A": {"lr_own": 1}, "B": {}}, rates="both")
    assert [run.row for run in choose_runs(runs, [])] == ["A", "A, own rate", "B"]
    assert [run.row for run in choose_runs(runs, ["B", "A"])] == ["A", "A, own rate", "B"]
    assert [run.row for run in choose_runs(runs, ["A, own rate"])] == ["A, own rate"]
    with pytest.raises(InputError, match="no row 'A, own rte' among those to run: did you mean 'A, own rate'"):
        choose_runs(runs, ["A, own rte"])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"learning_rate": 1e-3}, "unknown setting 'learning_rate'"),
        ({"episods": 3}, "did you mean 'episodes'"),
        ({"shot": 5}, "unknown setting 'shot'"),
        ({"lr": "fast"}, "the row 'A': lr is 'fast': a number was wanted"),
        ({"episodes": True}, "episodes is True: a whole number was wanted"),
        ({"sst": 1}, "sst is 1: true or false was wanted"),
        ({"adapter": "coalescnt"}, "did you mean 'coalescent'"),
        ({"adapter_options": ["length=1"]}, "a table was wanted, not a list"),
        (
            {"adapter_options": {"sharin": "shared"}},
            "row 'A': the adapter 'coalescent' has an unknown option 'sharin': did you mean 'sharing'",
        ),
        ({"adapter": "frozen", "adapter_options": {"rank": 1}}, "does not have"),
        ({"lr_own": -1}, "number above 0"),
        (
            {"adapter_options": {"layers": "all"}},
            "'coalescent': layers is 'all': a list or nothing was wanted",
        ),
        ({"select": "first"}, "row 'A': select is 'first'"),
        (3, "a table was wanted"),
    ],
)
def test_a_wrong_row_is_a_sentence(table, words):
    with pytest.raises(InputError, match=words):
        planned({"A": table})


def test_rows_that_would_share_files_are_refused():
    with pytest.raises(InputError, match="'A b' and 'a-B' would share"):
        read_rows({"A b": {}, "a-B": {}})
    with pytest.raises(InputError, match="would share"):
        read_rows({"A": {}, "a own rate": {}})
    with pytest.raises(InputError, match="with a letter"):
        read_rows({"+": {}})
    with pytest.raises(InputError, match="at least one table"):
        read_rows({})
    with pytest.raises(InputError, match=r"seeds are \[1, 1\]"):
        planned({"A": {}}, seeds=[1, 1])
    with pytest.raises(InputError, match=r"shots are \[\]"):
        planned({"A": {}}, shots=[])


@settings(deadline=None, max_examples=50)
@given(st.text())
def test_a_slug_is_a_file_name(name):
    text = slug(name)
    assert not set(text) & set('/\\ \n\0:*?"<>|')
    assert not text.startswith((".", "-"))
    assert slug(text) == text or not text.isascii()


def test_the_recipe_has_the_rows_of_the_papers_ablation():
    rows = {row.name: row for row in read_rows(tomllib.loads(RECIPE.read_text())["rows"])}
    lengths = [row.adapter_options["length"] for row in rows.values() if row.adapter == "soft_prompts"]
    assert lengths == [1, 2, 4, 8]
    assert rows["CP + PE + SST"].overrides == {}
    assert rows["Shared CP + PE + SST"].adapter_options == {"sharing": "shared"}
    assert rows["CP + SST"].overrides == {"pe": False}
    assert rows["CP + PE"].overrides == {"sst": False}
    assert rows["CP, plain episodes"].overrides == {"pe": False, "sst": False}
    assert {row.adapter for row in rows.values()} == {
        *("coalescent", "frozen", "attn_scale", "soft_prompts", "residual", "lora")
    }
    assert rows["Mahalanobis CP + PE + SST"].adapter_options == {"constraint": "mahalanobis"}
    assert rows["LoRA, rank 4 + PE + SST"].adapter_options == {"rank": 4}
