"""Settings are declared once: what is declared is an option, a recipe's key, a row's key and in the record of a run."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import typing
from pathlib import Path

import msgspec
import pytest
from oracles.color_folders import color_folders

from cplsr import TrainingSettings
from cplsr.cli import VERBS, main
from cplsr.cli.options import parse
from cplsr.cli.train import Train
from cplsr.declared import Declared, kinds_of
from cplsr.errors import InputError
from cplsr.settings import training
from cplsr.settings.backbone import BackboneSettings

TRAINING_DOC = Path(__file__).parents[2] / "docs" / "training.md"

OPTIONS = {
    f"{verb}: {name}": cls
    for verb in VERBS
    for name, cls in vars(importlib.import_module(f"cplsr.cli.{verb}")).items()
    if isinstance(cls, type) and issubclass(cls, Declared) and cls.__module__ == f"cplsr.cli.{verb}"
}


def numbers_without_a_range(kind: object) -> list[object]:
    """All number types inside a type that no range limits on both sides."""
    metas = [meta for meta in getattr(kind, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]
    if any((meta.ge is not None or meta.gt is not None) and meta.le is not None for meta in metas):
        return []
    if kind in (int, float):
        return [kind]
    inner = () if typing.get_origin(kind) is typing.Literal else typing.get_args(kind)
    return [found for part in inner for found in numbers_without_a_range(part)]


def test_every_verb_with_options_declares_them():
    told = {name.partition(":")[0] for name in OPTIONS}
    assert set(VERBS) == told


@pytest.mark.parametrize("name", OPTIONS)
def test_every_number_option_has_a_range(name):
    found = {field: numbers_without_a_range(kind) for field, kind in kinds_of(OPTIONS[name]).items()}
    assert not {field: numbers for field, numbers in found.items() if numbers}


def test_a_number_without_a_range_would_be_found():
    assert numbers_without_a_range(tuple[int, ...] | None) == [int]
    assert numbers_without_a_range(typing.Annotated[float, "anything"] | bool) == [float]
    assert numbers_without_a_range(typing.Literal[1, 2]) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train --ridge nan", "ridge is nan: give a number of at least 0"),
        ("train --ridge inf", "ridge is inf: give a number of at most 1000000"),
        ("train --threads -1", "threads is -1: give a whole number of at least 1"),
        ("train --threads 1000000000000", "threads is 1000000000000: give a whole number of at most 1024"),
        ("train --candidates 1000000000000", "candidates is 1000000000000: give a whole number of at most 10000"),
        ("train --episodes 99999999999999999999", "episodes is 99999999999999999999: give a whole number of at most"),
        ("train --temperature 1e20", "temperature is 1e+20: give a number of at most 10000"),
        ("train --workers -1", "workers is -1: give a whole number of at least 0"),
        ("train --seed -1", "seed is -1: give a whole number of at least 0"),
        ("train --validation-episodes 6", "validation_episodes is 6: a draw is turned four ways"),
        ("train --mean nan 0 0", "mean is (nan, 0.0, 0.0): give a number of at least -1000, in [0]"),
        ("train --std 1 1 0", "std is (1.0, 1.0, 0.0): give a number above 0, in [2]"),
        ("train --warmup 1.5", "warmup is 1.5: give a number of at most 1"),
        ("train --warmup nan", "warmup is nan: give a number of at least 0"),
        ("train --objective-lr 0", "objective_lr is 0.0: give a number above 0"),
        ("train --survivors 50", "give at least 250 candidates"),
        ("evaluate --batch-size -1", "batch_size is -1: give a whole number of at least 1"),
        ("evaluate --episodes 1000000000000", "episodes is 1000000000000: give a whole number of at most 1000000"),
        ("evaluate --shots 1 1", "shots are [1, 1]: give at least one, each once"),
        ("evaluate --shots 0", "shots is (0,): give a whole number of at least 1, in [0]"),
        ("ablate --lr-own 0", "lr_own is 0.0: give a number above 0"),
        ("ablate --tune-rates 1 nan", "tune_rates is (1.0, nan): give a number above 0, in [1]"),
        ("ablate --ray-gpus inf", "ray_gpus is inf: give a number of at most 1000"),
        ("analyze --out x --attention -1", "attention is -1: give a whole number of at least 0"),
        ("classify --reject-below nan", "reject_below is nan: give a number of at least 0"),
        ("check nowhere --workers 9999", "workers is 9999: give a whole number of at most 256"),
        ("serve --port 65536", "port is 65536: give a whole number of at most 65535"),
        ("export --to onnx --out x --image-size 0", "image_size is 0: give a whole number of at least 1"),
        ("data doctor nowhere --query 0", "query is 0: give a whole number of at least 1"),
        ("demo --seed 9999999999999999999999", "seed is 9999999999999999999999: give a whole number of at most"),
    ],
)
def test_a_number_out_of_its_range_is_one_sentence(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("cplsr: ")
    assert said in shown
    assert shown.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_recipe_and_words_are_checked_together():
    said = {"candidates": 4}  # too few for five classes
    assert parse(Train, "train", ["--way", "2"], said).candidates == 4
    with pytest.raises(ValueError, match="give at least 10 candidates"):
        parse(Train, "train", [], said)


def test_candidates_are_counted_only_where_pseudo_episodes_are_drawn():
    assert TrainingSettings(way=60, pe=False).candidates == 100
    with pytest.raises(ValueError, match="give at least 120 candidates"):
        TrainingSettings(way=60)


def test_a_wrong_choice_in_python_is_a_sentence():
    # in a process of its own, because here the types of all arguments are checked before
    code = "from cplsr import TrainingSettings; TrainingSettings(select='first')"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.stderr.strip().endswith("InputError: select is 'first': give 'best' or 'last'")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"optimizer": "lion"}, "optimizer is 'lion': give 'adamw', 'adam' or 'sgd'"),
        ({"schedule": "linear"}, "schedule is 'linear': give 'constant' or 'cosine'"),
        ({"augment": True}, "augment is True"),
        ({"augment": "blur"}, "augment is 'blur': give 'none', 'colors', 'crop' or 'foreign'"),
        ({"optimiser": "sgd"}, "unknown setting 'optimiser': did you mean 'optimizer'"),
    ],
)
def test_a_wrong_choice_in_a_recipe_is_a_sentence(table, said):
    with pytest.raises(InputError, match=said):
        TrainingSettings.from_table(table, "the recipe")


@pytest.mark.skipif(not TRAINING_DOC.is_file(), reason="the documentation is not beside these tests")
def test_the_documented_tables_name_every_option_of_training():
    rows = [line for line in TRAINING_DOC.read_text(encoding="utf-8").splitlines() if line.startswith("| `--")]
    told = set(re.findall(r"--(?:no-)?([a-z-]+)", " ".join(line.split("|")[1] for line in rows)))
    own = kinds_of(Train).keys() - kinds_of(BackboneSettings).keys() | {"pooling"}  # which means more here
    assert {name.replace("_", "-") for name in own} - told == set()


def test_settings_are_kept_under_the_names_of_old_runs():
    names = {
        *("way", "shot", "query", "episodes", "lr", "weight_decay", "temperature", "prototype", "symmetry", "sst"),
        *("pe", "select", "validation_episodes", "validate_every", "episodes_per_step", "statistics"),
        *("statistics_images", "shrinkage", "ridge", "candidates", "survivors", "novel_similarity"),
        *("pseudo_episodes", "online", "checkpointing", "compile", "seed"),
        *("optimizer", "objective_lr", "schedule", "warmup", "augment"),
        *("head", "anchor", "trust", "turns", "average", "follow"),
    }
    assert TrainingSettings().as_dict().keys() == names
    stored = json.loads(json.dumps(TrainingSettings(way=3, lr=0.5).as_dict()))
    assert TrainingSettings.from_table(stored, "run.json") == TrainingSettings(way=3, lr=0.5)


def test_settings_and_commands_load_nothing_heavy():
    code = (
        "import sys, cplsr.settings.ablation, cplsr.settings.episodes\n"
        "print({'torch', 'numpy', 'tyro'} & set(sys.modules))\n"
        "import cplsr.cli.train, cplsr.cli.ablate, cplsr.cli.evaluate\nprint({'torch', 'numpy'} & set(sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split("\n")[:2] == ["set()", "set()"]


NEW_FIELD = '''    warm_up: Annotated[int, between(0, 100)] = 0
    """Episodes of growing rate, a setting of this test."""
'''
RUN_WITH_NEW_FIELD = """
import contextlib, importlib.util, io, sys
from pathlib import Path
declaration, recipe, out = map(Path, sys.argv[1:])
spec = importlib.util.spec_from_file_location("cplsr.settings.training", declaration)
sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from cplsr.cli import main
with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
    main(["train", "--help"])
assert "--warm-up INT" in shown.getvalue() and "a setting of this test" in shown.getvalue()
assert main(["train", str(recipe), "--out", str(out / "recipe")]) == 0
assert main(["train", str(recipe), "--warm-up", "7", "--out", str(out / "option")]) == 0
assert main(["train", str(recipe), "--warm-up", "101", "--out", str(out / "wrong")]) == 2
rows = recipe.with_name("rows.toml")
rows.write_text(recipe.read_text().replace("shot = 1", "shots = [1]") + '[rows."A"]\\nwarm_up = 9\\n')
words = ["--target", f"T={out.parent / 'images' / 'base'}", "--evaluation-query", "2", "--evaluation-episodes", "4"]
assert main(["ablate", str(rows), "--out", str(out / "ablation"), *words]) == 0
"""


def test_a_field_added_to_the_declaration_is_everywhere(checkpoint_file: Path, tmp_path: Path):
    images = color_folders(tmp_path / "images", ("base",), prefix="class ", colors=(60, 190), key=3) / "base"
    declaration, recipe = tmp_path / "training.py", tmp_path / "recipe.toml"
    text = Path(training.__file__).read_text(encoding="utf-8")
    declaration.write_text(text.replace("    lr: LearningRate", f"{NEW_FIELD}    lr: LearningRate"), encoding="utf-8")
    recipe.write_text(
        f'backbone = "{checkpoint_file}"\nheads = 2\nbase = "{images}"\nway = 2\nshot = 1\nquery = 1\nepisodes = 1\n'
        "validation_episodes = 4\npe = false\nsst = false\nworkers = 0\nwarm_up = 5\n"
    )
    words = [sys.executable, "-c", RUN_WITH_NEW_FIELD, str(declaration), str(recipe), str(tmp_path / "out")]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "cplsr: warm_up is 101: give a whole number of at most 100" in answer.stderr
    runs = {path.parent.name: json.loads(path.read_text()) for path in (tmp_path / "out").rglob("run.json")}
    stored = {name: run["settings"]["warm_up"] for name, run in runs.items()}
    assert stored == {"recipe": 5, "option": 7, "a-1shot-seed0": 9}
