"""`--method` of train, evaluate and ablate: defaults, what is trained, what is measured, and wrong names."""

import json
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cplsr.ablation.plan import Candidate, plan_runs, read_rows
from cplsr.adapters.store import read_adapter_info
from cplsr.cli import main
from cplsr.cli.ablate import Ablate
from cplsr.cli.options import read_recipe
from cplsr.cli.train import parse_train
from cplsr.errors import InputError
from cplsr.methods.registry import METHODS, learning_kind
from cplsr.settings.training import TrainingSettings

FIELD = Path(__file__).parents[2] / "src" / "cplsr" / "recipes" / "field_sample.toml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six classes of six 32-px images: a class is a color."""
    random = np.random.Generator(np.random.Philox(key=5))
    for number in range(6):
        (tmp_path / "images" / f"c{number}").mkdir(parents=True)
        color = random.uniform(60, 190, 3)
        for image in range(6):
            pixels = (color + random.normal(0, 40, (32, 32, 3))).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / f"c{number}" / f"{image}.png")
    return tmp_path / "images"


@pytest.fixture
def recipe(checkpoint_file: Path, folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(
        f'backbone = "{checkpoint_file}"\nheads = 2\nbase = "{folder}"\nway = 2\nquery = 2\nepisodes = 2\n'
        'validation_episodes = 4\nvalidate_every = 0\ncandidates = 6\npseudo_episodes = 2\nshrinkage = "ledoit_wolf"\n'
        "workers = 0\n"
    )
    return path


def train(recipe: Path, out: Path, *words: str) -> int:
    return main(["train", str(recipe), "--shot", "2", "--out", str(out), *words])


def run_of(out: Path) -> dict:
    return json.loads((out / "run.json").read_text())


def test_a_method_brings_its_settings_and_trains_the_whole_backbone(recipe, tmp_path, capsys):
    out = tmp_path / "run"
    words = ["--method", "styleadv", "--method-options", "skip=0.5", "strengths=[1]"]
    assert train(recipe, out, *words, "--episodes", "1") == 0
    run = run_of(out)
    assert run["method"] == {
        "name": "styleadv",
        "options": {"strengths": [1.0], "skip": 0.5, "temperature": 10.0},
    }
    assert run["adapter"]["kind"] == "full"
    told = {name: run["settings"][name] for name in ("optimizer", "lr", "objective_lr", "sst", "pe")}
    assert told == {"optimizer": "sgd", "lr": 5e-5, "objective_lr": 1e-3, "sst": False, "pe": False}
    info = read_adapter_info(out)
    assert (info.kind, info.info["method"]) == ("full", "styleadv")
    assert "all weights of the backbone are trained" in capsys.readouterr().err


def test_the_recipe_and_the_command_line_beat_the_method(recipe, tmp_path):
    recipe.write_text(recipe.read_text() + 'lr = 1e-3\nsst = true\nmethod = "fwt"\n')
    out = tmp_path / "run"
    assert train(recipe, out, "--train", "adapter", "--weight-decay", "0.25", "--temperature", "5") == 0
    run = run_of(out)
    told = {name: run["settings"][name] for name in ("lr", "weight_decay", "sst", "pe")}
    assert told == {"lr": 1e-3, "weight_decay": 0.25, "sst": True, "pe": False}
    assert run["method"]["name"] == "fwt"
    assert run["method"]["options"]["temperature"] == 5
    assert run["adapter"]["kind"] == "coalescent"


def test_without_a_method_it_is_cplsr_as_before(recipe, tmp_path):
    assert train(recipe, tmp_path / "run", "--episodes", "1", "--lr", "1e-3") == 0
    run = run_of(tmp_path / "run")
    assert run["method"] == {"name": "cplsr", "options": {}}
    assert (run["settings"]["pe"], run["settings"]["sst"], run["settings"]["weight_decay"]) == (True, True, 0.0)
    assert run["adapter"]["kind"] == "coalescent"
    assert read_adapter_info(tmp_path / "run").info["method"] == "cplsr"


def test_a_run_of_a_method_is_resumed_only_as_itself(recipe, tmp_path, capsys):
    out = tmp_path / "run"
    assert train(recipe, out, "--method", "pmf", "--episodes", "1") == 0
    assert train(recipe, out, "--method", "pmf", "--episodes", "1", "--resume") == 0
    assert "finished already" in capsys.readouterr().out
    assert train(recipe, out, "--method", "fwt", "--episodes", "1", "--resume") == 2
    assert "name: pmf, now fwt" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "stileadv"], "no method 'stileadv': did you mean 'styleadv'"),
        (["--method=zzzz"], "give one of cplsr, pmf"),
        (["--method", "styleadv", "--method-options", "skp=1"], "unknown option 'skp': did you mean 'skip'"),
        (["--method", "styleadv", "--method-options", "skip"], "method option 'skip' is incomplete"),
        (["--method-options", "skip=1"], "'cplsr' has no options"),
        (["--method", "pmf", "--adapter", "lora"], "'pmf' is to train the whole backbone"),
        (["--method", "pmf", "--pe"], "makes no use of pseudo-embeddings"),
    ],
)
def test_wrong_options_are_a_sentence(recipe, tmp_path, capsys, words, said):
    assert train(recipe, tmp_path / "run", *words) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_method_is_found_wherever_it_is_said():
    assert parse_train(["--lr", "1", "--method", "pmf"], {}).method == "pmf"
    assert parse_train(["--method=fwt", "--method-options", "strength=1"], {}).method == "fwt"
    assert parse_train(["--method", "pmf", "--method", "fwt"], {}).method == "fwt"
    own = parse_train([], {})
    assert own == parse_train(["--method", "cplsr"], {"method": "pmf"})
    assert own.sst
    assert own.pe
    brought = parse_train([], {"method": "pmf", "train": "adapter"})
    settings = {"sst": False, "pe": False, "augment": "crop", "temperature": 10.0}
    assert brought == replace(own, method="pmf", train="adapter", **settings)
    assert parse_train(["--way", "80", "--method", "pmf"], {}).way == 80  # it has no pseudo-episodes
    assert parse_train(["--pe"], {"method": "pmf", "train": "adapter"}) == replace(brought, pe=True)
    assert parse_train([], {"method": "pmf", "train": "adapter", "sst": True}) == replace(brought, sst=True)


def test_importing_the_commands_and_asking_for_help_loads_nothing_heavy():
    code = (
        "import sys, contextlib, io\nfrom cplsr.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):\n"
        "    main(['train', '--help'])\n"
        "print('--method' in shown.getvalue(), {'torch', 'cplsr.methods'} & set(sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "True set()"


def test_evaluate_adds_a_row_for_every_model(recipe, checkpoint_file, folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert train(recipe, tmp_path / "run", "--method", "pmf", "--train", "adapter", "--episodes", "1") == 0
    words = [
        *("evaluate", "--backbone", str(checkpoint_file), "--heads", "2", "--target", f"T={folder}", "--workers", "0"),
        *(
            "--adapter",
            f"PMF={tmp_path / 'run'}",
            "--way",
            "2",
            "--query",
            "2",
            "--episodes",
            "20",
            "--shots",
            "1",
            "2",
        ),
    ]
    out = tmp_path / "results.json"
    more = ["--method", "pmf", "--method-episodes", "3", "--method-options", "steps=1", "trial_steps=1"]
    assert main([*words, *more, "--out", str(out)]) == 0
    results = json.loads(out.read_text())
    counts = {(row["method"], row["shot"]): row["episodes"] for row in results["rows"]}
    assert counts == {
        (f"{model}{end}", shot): 3 if end else 20
        for model in ("frozen", "PMF")
        for end in ("", "+pmf")
        for shot in (1, 2)
    }
    assert {row["method"] for row in results["paired"]} == {"PMF", "PMF+pmf", "frozen+pmf"}
    nothing = next(r for r in results["paired"] if (r["method"], r["shot"]) == ("frozen+pmf", 1))
    assert nothing["difference"] == 0  # one shot: nothing is tuned
    assert results["settings"]["adaptation"]["options"]["steps"] == 1
    shown = capsys.readouterr().out
    assert "frozen+pmf: 3 episodes" in shown
    assert "note: +pmf adapts on the support set of every episode" in shown


def test_evaluate_tunes_on_the_support_sets_and_tells_what_the_best_epoch_would_be(
    recipe, checkpoint_file, folder, tmp_path, capsys
):
    run, out = tmp_path / "run", tmp_path / "results.json"
    words = [
        *("evaluate", "--backbone", str(checkpoint_file), "--heads", "2", "--target", f"T={folder}", "--workers", "0"),
        *("--adapter", f"CP={run}", "--way", "2", "--query", "2", "--episodes", "20", "--shots", "1", "2"),
    ]
    assert train(recipe, run, "--episodes", "3", "--validate-every", "1", "--lr", "0.1", "--snapshots") == 0
    assert sorted(path.name for path in (run / "snapshots").iterdir()) == ["0000001", "0000002", "0000003"]
    assert read_adapter_info(run / "snapshots" / "0000003").fingerprint == read_adapter_info(run / "last").fingerprint
    more = ["--tune-on-support", "--tune-options", "steps=1", "--method-episodes", "3", "--best-on-target"]
    assert main([*words, *more, "--out", str(out)]) == 0
    results = json.loads(out.read_text())
    assert {row["method"] for row in results["rows"] if row["shot"] == 2} == {
        *("frozen", "CP", "frozen+tuned", "CP+tuned"),
    }
    assert {row["method"] for row in results["rows"] if row["shot"] == 1} == {"frozen", "CP"}
    assert results["settings"]["adaptation"]["options"]["steps"] == 1
    told = [flag for flag in results["flags"] if "(not allowed)" in flag]
    assert [flag.split(":")[0] for flag in told] == ["CP on T, 1-shot", "CP on T, 2-shot"]

    def accuracy(number):
        words[words.index("--adapter") + 1] = f"S={run / 'snapshots' / f'000000{number}'}"
        assert main([*words, "--out", str(out)]) == 0
        rows = json.loads(out.read_text())["rows"]
        return next(row["accuracy"] for row in rows if (row["method"], row["shot"]) == ("S", 2))

    figures = [accuracy(number) for number in (1, 2, 3)]
    best = max(figures)
    expected = f"last epoch {figures[-1]:.2f} %, best epoch chosen on the target (not allowed) {best:.2f} %"
    assert expected in told[1]
    assert told[1].endswith(f"episode {figures.index(best) + 1}")


def test_the_best_on_the_target_needs_runs_with_snapshots(recipe, checkpoint_file, folder, tmp_path, capsys):
    assert train(recipe, tmp_path / "run", "--episodes", "1") == 0
    assert not (tmp_path / "run" / "snapshots").exists()
    words = ["evaluate", "--backbone", str(checkpoint_file), "--heads", "2", "--target", f"T={folder}", "--workers=0"]
    words += ["--way", "2", "--query", "2", "--episodes", "4", "--shots", "2", "--best-on-target"]
    assert main(words) == 2
    assert "there are none: give --adapter RUN" in capsys.readouterr().err
    assert main([*words, "--adapter", str(tmp_path / "run")]) == 2
    assert "has no snapshots/, of which the best on the target could be told" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "fwt"], "'fwt' only makes prototypes of a support set.* --method pmf"),
        (["--method", "pfm"], "did you mean 'pmf'"),
        (["--method", "pmf", "--method-options", "step=1"], "did you mean 'steps'"),
        (["--method", "pmf", "--method-episodes", "0"], "method_episodes is 0: give a whole number of at least 1"),
        (["--method", "pmf", "--precision", "bf16"], "give --precision fp32"),
        (["--tune-on-support", "--precision", "bf16"], "give --precision fp32"),
        (["--tune-on-support", "--method", "pmf"], "both adapt on the support set: give one"),
        (["--tune-on-support", "--tune-options", "step=1"], "did you mean 'steps'"),
        (["--tune-on-support", "--tune-options", "steps"], "tuning option 'steps' is incomplete"),
        (["--tune-options", "steps=1"], "nothing is tuned: give --tune-on-support"),
    ],
)
def test_what_evaluate_cannot_do_is_said_before_it_measures(checkpoint_file, folder, capsys, words, said):
    common = ["evaluate", "--backbone", str(checkpoint_file), "--heads", "2", "--target", str(folder)]
    assert main([*common, *words]) == 2
    assert re.search(said, capsys.readouterr().err)


def test_rows_of_an_ablation_have_methods():
    tables = {
        "own": {},
        "whole": {"method": "pmf"},
        "on CP": {"method": "styleadv", "train": "adapter", "lr": 1e-2, "method_options": {"skip": 0}},
    }
    common = TrainingSettings(lr=1e-4)
    own, whole, small = plan_runs(read_rows(tables), common, shots=[5], seeds=[0])
    assert (own.method, own.adapter, own.settings) == ("cplsr", "coalescent", common)
    assert (whole.adapter, whole.settings.lr, whole.settings.optimizer) == ("full", 5e-5, "sgd")
    assert (small.adapter, small.settings.lr, small.settings.optimizer) == ("coalescent", 1e-2, "adamw")
    assert {(run.settings.pe, run.settings.sst) for run in (whole, small)} == {(False, False)}
    assert small.objective().options["skip"] == 0.0
    (taken,) = read_rows(
        {"A": {}}, Candidate(adapter="coalescent", method="fwt", method_options={"strength": 0.5}), "adapter"
    )
    assert (taken.method, taken.method_options, taken.adapter) == ("fwt", {"strength": 0.5}, "coalescent")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"method": "pfm"}, "row 'A': there is no method 'pfm': did you mean 'pmf'"),
        ({"method": "pmf", "method_options": {"scal": 1}}, "row 'A': .* did you mean 'scale'"),
        ({"method": "pmf", "train": "all"}, "row 'A': train is 'all'"),
        ({"method": "pmf", "adapter": "lora"}, "row 'A': .* whole backbone"),
        ({"method": "pmf", "pe": True}, "row 'A': .* pseudo-embeddings"),
        ({"method": "fwt", "adapt": 3}, "row 'A': the method 'fwt' only makes prototypes"),
        ({"method": "pmf", "adapt": -1}, "row 'A': adapt is -1: give a whole number of at least 0"),
        ({"method": "pmf", "adapt_options": {"steps": 1}}, "row 'A': adapt is 0: give the number of target episodes"),
        ({"method": "pmf", "adapt": 3, "adapt_options": {"step": 1}}, "row 'A': .* did you mean 'steps'"),
        ({"adapter": "frozen", "adapt": 3}, "'frozen' the option 'adapt', which it does not have"),
        ({"adapter": "frozen", "method": "pmf"}, "'frozen' the option 'method', which it does not have"),
    ],
)
def test_a_wrong_row_is_a_sentence(table, said):
    with pytest.raises(InputError, match=said):
        plan_runs(read_rows({"A": table}), TrainingSettings(), shots=[5], seeds=[0])


@pytest.mark.parametrize("name", ["field_sample", "field_sample_224", "field_mini"])
def test_the_recipes_of_the_field_hold_every_method_both_ways(name):
    options = Ablate(**read_recipe(FIELD.with_name(f"{name}.toml"), Ablate))
    rows = read_rows(options.rows)
    kinds = {(row.method, learning_kind(row.adapter, row.adapter_options)) for row in rows if row.adapter != "frozen"}
    assert kinds == {
        ("cplsr", "coalescent"),
        *((method, kind) for method in METHODS if method != "cplsr" for kind in ("full", "coalescent")),
    }
    runs = plan_runs(rows, TrainingSettings(episodes=options.episodes, lr=options.lr), shots=[5], seeds=[0])
    assert {run.settings.episodes for run in runs} == {options.episodes}
    rates = {
        run.method: (run.settings.lr, run.settings.weight_decay)
        for run in runs
        if learning_kind(run.adapter, run.adapter_options) == "full"
    }
    class_level = [rates.pop(method) for method in ("attn_temp", "reap", "cd_cls")]
    assert set(rates.values()) == {(5e-5, 0.0)}
    own = [(1e-7, 0.01), (1e-6, 0.01), (1e-7, 0.01)]
    assert class_level == (own if name == "field_mini" else [(5e-5, 0.01)] * 3)


def test_every_row_of_that_recipe_runs_and_is_not_run_again(checkpoint_file, folder, tmp_path, capsys):
    words = [
        *("ablate", str(FIELD), "--backbone", str(checkpoint_file), "--heads", "2", "--image-size", "32"),
        *("--base", str(folder), "--target", f"T={folder}", "--shots", "2", "--way", "2", "--query", "2"),
        *("--episodes", "1", "--validation-episodes", "4", "--validate-every", "0", "--candidates", "6"),
        *("--pseudo-episodes", "2", "--shrinkage", "ledoit_wolf", "--evaluation-episodes", "3", "--threads", "1"),
        *("--evaluation-query", "2", "--workers", "0", "--seeds", "0", "--out", str(tmp_path / "out")),
    ]
    assert main(words) == 0
    records = {record["row"]: record for record in map(_read, (tmp_path / "out").glob("*-seed0.json"))}
    assert set(records) == set(tomllib.loads(FIELD.read_text())["rows"])
    assert records["frozen"]["method"] == {}
    reading = records["frozen, all blocks, ridge"]["setup"]
    assert (reading["read_pooling"], reading["read_head"]) == ("depth", "ridge")
    for part, kind in (("backbone", "full"), ("adapter", "coalescent")):
        options = records[f"AttnTemp, {part}, class token hidden only"]["adapter"]["options"]
        assert (options["temperature"], options["adapter"]) == (1.0, kind)
    assert records["CPLSR"]["method"] == {"name": "cplsr", "options": {}}
    assert records["PMF, backbone"]["method"] == {"name": "pmf", "options": {"scale": 10.0}}
    assert records["PMF, backbone"]["training"]["parameters"] > records["PMF, adapter"]["training"]["parameters"]
    capsys.readouterr()
    assert main(words) == 0
    assert f"{len(records)} of {len(records)} runs are finished already" in capsys.readouterr().err


def _read(path: Path) -> dict:
    return json.loads(path.read_text())
