"""Methods by name: what they bring, what they train, and what is said of wrong names and options."""

from dataclasses import replace

import pytest

from cplsr.errors import InputError
from cplsr.methods.registry import (
    METHODS,
    OWN,
    make_adaptation,
    make_objective,
    starting_settings,
    trained_kind,
)
from cplsr.settings.training import TrainingSettings

PLAIN = TrainingSettings(pe=False)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "cplsr"])
def test_every_method_is_described_and_can_be_made(name):
    method = METHODS.find(name)
    assert method.name == name
    assert method.reference
    assert method.sees.startswith("base images")
    assert method.trains in ("backbone", "adapter")
    TrainingSettings(**method.settings)
    assert not method.settings["pe"]
    objective = make_objective(method, {}, PLAIN)
    assert objective.name == name
    made_again = make_objective(method, objective.options, PLAIN)
    assert made_again.options == objective.options


def test_cplsr_itself_is_the_training_loops_own():
    assert METHODS.find("cplsr") is OWN
    assert make_objective(OWN, {}, TrainingSettings()) is None
    assert make_adaptation(OWN, {}) is None
    assert starting_settings(OWN) == {}
    with pytest.raises(InputError, match="'cplsr' has no options, but skip was given"):
        make_objective(OWN, {"skip": 1.0})


def test_how_a_backbone_is_optimized_says_nothing_of_an_adapter():
    both = {"objective_lr": 1e-3, "augment": "crop", "pe": False}
    whole = {"optimizer": "sgd", "schedule": "cosine", "warmup": 0.1, "lr": 5e-5, "weight_decay": 0.0}
    method = replace(METHODS.find("pmf"), settings=whole | both)
    assert starting_settings(method) == whole | both
    assert starting_settings(method, "adapter") == both


def test_optimizer_and_rate_are_for_the_whole_backbone():
    method = METHODS.find("styleadv")
    both = {"objective_lr": 1e-3, "augment": "crop", "temperature": 10.0, "sst": False, "pe": False}
    whole = both | {"optimizer": "sgd", "lr": 5e-5, "schedule": "cosine", "warmup": 0.25}
    assert starting_settings(method) == starting_settings(method, "backbone") == whole
    assert starting_settings(method, "adapter") == both


def test_every_method_starts_with_its_authors_optimizer_and_augmentation():
    made = {name: TrainingSettings(**METHODS.find(name).settings) for name in METHODS if name != "cplsr"}
    assert {name for name in made if made[name].optimizer == "sgd"} == {"pmf", "styleadv"}
    for name, settings in made.items():
        sgd, class_level = name in ("pmf", "styleadv"), name in ("attn_temp", "reap", "cd_cls")
        kind = ("adamw", 0.01) if class_level else ("sgd" if sgd else "adam", 0)
        assert (settings.optimizer, settings.weight_decay) == kind, name
        assert settings.schedule == ("cosine" if sgd else "constant"), name
        assert settings.warmup == {"pmf": 5 / 100, "styleadv": 5 / 20}.get(name, 0), name
        assert settings.augment == ("colors" if name == "ldp_net" else "crop"), name
        assert settings.objective_lr == (1e-3 if class_level or name in ("styleadv", "afa") else None), name
        if class_level:
            assert settings.lr == (1e-6 if name == "reap" else 1e-7), name


def test_what_is_trained():
    method = METHODS.find("pmf")
    assert trained_kind(method, "auto", "coalescent", {}) == ("full", {})
    assert trained_kind(method, "adapter", "lora", {"rank": 2}) == ("lora", {"rank": 2})
    assert trained_kind(OWN, "auto", "lora", {"rank": 2}) == ("lora", {"rank": 2})
    assert trained_kind(OWN, "backbone", "coalescent", {}) == ("full", {})
    for given in (("lora", {}), ("coalescent", {"sharing": "shared"})):
        with pytest.raises(InputError, match=rf"adapter {given[0]}.*'pmf' is to train the whole backbone"):
            trained_kind(method, "auto", *given)
    with pytest.raises(InputError, match="train is 'all': give 'auto'"):
        trained_kind(method, "all", "coalescent", {})


def test_the_temperature_of_the_run_holds_unless_the_method_is_given_one():
    settings = TrainingSettings(pe=False, temperature=5.0)
    assert make_objective(METHODS.find("fwt"), {}, settings).options["temperature"] == 5
    assert make_objective(METHODS.find("fwt"), {"temperature": 7}, settings).options["temperature"] == 7
    assert make_objective(METHODS.find("fwt"), {}).options["temperature"] == 20
    assert make_objective(METHODS.find("pmf"), {}, settings).options == {"scale": 10.0}


def test_pseudo_embeddings_are_not_thrown_away_silently():
    with pytest.raises(InputError, match="'fwt' makes no use of pseudo-embeddings: give --no-pe"):
        make_objective(METHODS.find("fwt"), {}, TrainingSettings())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"skp": 0.1}, "the method 'styleadv' has an unknown option 'skp': did you mean 'skip'"),
        ({"zzz": 0.1}, "give one of strengths, skip, temperature"),
        ({"skip": "often"}, "the method 'styleadv': skip is 'often': a number was wanted, not text"),
        ({"skip": True}, "skip is True: a number was wanted"),
        ({"skip": float("nan")}, "skip is nan: give a number of at least 0"),
        ({"strengths": 0.8}, "strengths is 0.8: a list was wanted"),
        ({"strengths": ["x"]}, r"strengths is \['x'\]: a number was wanted, not text, in \[0\]"),
    ],
)
def test_a_wrong_option_is_a_sentence(options, words):
    with pytest.raises(InputError, match=words):
        make_objective(METHODS.find("styleadv"), options)


def test_whole_numbers_stand_in_for_others_and_lists_for_tuples():
    assert make_objective(METHODS.find("styleadv"), {"skip": 0, "strengths": [1]}).options["strengths"] == [1.0]
    assert make_adaptation(METHODS.find("pmf"), {"rates": [0, 1e-4], "steps": 7}).options == {
        "rates": [0.0, 1e-4],
        "steps": 7,
        "trial_steps": 50,
    }
    with pytest.raises(InputError, match=r"the method 'pmf': steps is 1.5: a whole number was wanted"):
        make_adaptation(METHODS.find("pmf"), {"steps": 1.5})


def test_an_unknown_method_is_a_sentence():
    with pytest.raises(InputError, match="no method 'stileadv': did you mean 'styleadv'"):
        METHODS.find("stileadv")
    with pytest.raises(InputError, match="give one of cplsr, pmf"):
        METHODS.find("zzzz")


def test_only_pmf_adapts_on_targets():
    assert [name for name in METHODS if make_adaptation(METHODS.find(name), {}) is not None] == ["pmf"]
