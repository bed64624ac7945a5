"""`cplsr ablate` from a recipe to tables: finished runs stay, interrupted ones go on, failed ones are told."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from oracles.color_folders import color_folders
from oracles.fresh_process import heavy_after

from cplsr.ablation import engines
from cplsr.ablation.plan import plan_runs, read_rows
from cplsr.ablation.workspace import Workspace
from cplsr.cli import main
from cplsr.cli.ablate import Ablate
from cplsr.cli.options import read_recipe
from cplsr.files import only_writer
from cplsr.settings.ablation import RaySettings
from cplsr.settings.training import TrainingSettings
from cplsr.training import loop

RECIPE = Path(__file__).parents[2] / "src" / "cplsr" / "recipes" / "ablation_mini.toml"
RUN = "cp-2shot-seed0"


@pytest.fixture(autouse=True)
def _wide_screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def domains(tmp_path: Path) -> Path:
    """Folders `base`, `one` and `two` of six classes of six 32-px images: a class is a color."""
    return color_folders(tmp_path / "domains", ("base", "one", "two"), prefix="c", colors=(115, 135), key=5)


@pytest.fixture
def recipe(checkpoint_file: Path, domains: Path, tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(
        f'backbone = "{checkpoint_file}"\nheads = 2\nbase = "{domains / "base"}"\n'
        f'target = ["One={domains / "one"}", "Two={domains / "two"}"]\n'
        "shots = [2]\nseeds = [0]\nway = 2\nquery = 2\nepisodes = 3\nlr = 1e-3\nvalidation_episodes = 4\n"
        'validate_every = 0\ncandidates = 6\npseudo_episodes = 2\nshrinkage = "ledoit_wolf"\n'
        "evaluation_episodes = 20\nevaluation_query = 2\nworkers = 0\nthreads = 1\n"
        "tune_rates = [1e-3, 1e-1]\ntune_episodes = 2\n"
        '[rows."CP"]\n[rows."frozen"]\nadapter = "frozen"\n'
        '[rows."Prompts"]\nadapter = "soft_prompts"\nadapter_options = { length = 1 }\nlr_own = 1e-2\n'
    )
    return path


def ablate(recipe: Path, out: Path, *more: str) -> int:
    return main(["ablate", str(recipe), "--out", str(out), *more])


@pytest.fixture(autouse=True)
def working_folder(tmp_path, monkeypatch):
    """Records tell paths from here, so that whoever works here can use them again."""
    monkeypatch.chdir(tmp_path.parent)


def record(out: Path, name: str = RUN) -> dict:
    return json.loads((out / f"{name}.json").read_text())


def test_from_a_recipe_to_tables_and_nothing_is_done_twice(recipe, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    assert ablate(recipe, out, "--only", "CP", "frozen") == 0
    shown = capsys.readouterr().out
    assert "average" in shown
    assert "Not run: Prompts." in shown
    cp = record(out)
    assert (cp["row"], cp["shot"], cp["seed"]) == ("CP", 2, 0)
    assert cp["settings"]["episodes"] == 3
    assert cp["adapter"]["kind"] == "coalescent"
    assert cp["backbone"]["heads"] == 2
    assert {row["target"] for row in cp["results"]["rows"]} == {"One", "Two"}
    assert {row["query"] for row in cp["results"]["rows"]} == {2}
    assert cp["training"]["parameters"] == 2 * 2 * 32 * 32
    assert cp["training"]["start_accuracy"] >= 0
    assert "torch" in cp["versions"]
    markdown = (out / "table.md").read_text()
    line = next(line for line in markdown.splitlines() if line.startswith("| CP "))
    accuracy = next(r["accuracy"] for r in cp["results"]["rows"] if (r["method"], r["target"]) == ("CP", "One"))
    assert f"{accuracy:.2f}" in line.split("|")[2]
    assert r"\toprule" in (out / "table.tex").read_text()
    heads = "row,One 2-shot,Two 2-shot,average 2-shot,gain 2-shot,"
    heads += "trained parameters,training seconds,seconds per target episode\n"
    assert (out / "table.csv").read_text().startswith(heads)

    before = {path: path.stat().st_mtime_ns for path in sorted(out.rglob("*")) if "table" not in path.name}
    monkeypatch.setattr(engines, "perform", None)  # nothing is left to be done
    assert ablate(recipe, out, "--only", "CP", "frozen") == 0
    assert "2 of 2 runs are finished already" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in sorted(out.rglob("*")) if "table" not in path.name} == before
    assert (out / "table.md").read_text() == markdown


def test_a_row_may_adapt_on_the_support_sets_of_its_first_episodes(recipe, tmp_path, capsys):
    text = '[rows."PMF"]\nmethod = "pmf"\nadapt = 3\nadapt_options = { steps = 1, trial_steps = 1, rates = [0.01] }\n'
    recipe.write_text(recipe.read_text() + text)
    out = tmp_path / "out"
    assert ablate(recipe, out, "--only", "PMF", "CP") == 0
    shown = capsys.readouterr().out
    assert "PMF: only the first 3 episodes; compare its gain, not its accuracy." in shown
    pmf, cp = record(out, "pmf-2shot-seed0"), record(out)
    assert {(row["method"], row["episodes"]) for row in pmf["results"]["rows"]} == {("frozen", 20), ("PMF", 3)}
    assert {(row["method"], row["target"]) for row in pmf["results"]["paired"]} == {("PMF", "One"), ("PMF", "Two")}
    assert pmf["adapt"] == {"episodes": 3, "options": {"rates": [0.01], "steps": 1, "trial_steps": 1}}
    assert pmf["declared"] == {
        "trains": "backbone",
        "sees": "base images and labels; tunes on each support set (3 episodes)",
    }
    assert cp["declared"]["trains"] == "coalescent"
    assert min(pmf["seconds_per_target_episode"], cp["seconds_per_target_episode"]) >= 0
    (folder,) = out.glob("runs/pmf-*")
    words = ["evaluate", "--backbone", pmf["setup"]["backbone"], "--heads", "2", "--adapter", f"PMF={folder}"]
    for name, source in pmf["setup"]["targets"]:
        words += ["--target", f"{name}={source}"]
    words += ["--shots", "2", "--way", "2", "--query", "2", "--episodes", "20", "--method", "pmf"]
    words += ["--method-episodes", "3", "--method-options", "rates=[0.01]", "steps=1", "trial_steps=1"]
    assert main([*words, "--workers", "0", "--out", str(tmp_path / "results.json")]) == 0
    evaluated = json.loads((tmp_path / "results.json").read_text())["rows"]
    again = {row["target"]: row["accuracy"] for row in evaluated if row["method"] == "PMF+pmf"}
    assert again == {row["target"]: row["accuracy"] for row in pmf["results"]["rows"] if row["method"] == "PMF"}
    recipe.write_text(recipe.read_text().replace("adapt = 3", "adapt = 4"))
    assert ablate(recipe, out, "--only", "PMF") == 2
    assert "with other settings (episodes: 3, now 4" in capsys.readouterr().err


def test_the_best_epoch_on_the_target_is_two_more_columns_and_changes_no_other(recipe, tmp_path, capsys):
    plain, out = tmp_path / "plain", tmp_path / "out"
    only = ("--validate-every", "1", "--only", "CP", "frozen")
    assert ablate(recipe, plain, *only) == 0
    assert ablate(recipe, out, *only, "--best-on-target") == 0
    cp, before = record(out), record(plain)
    assert {(row["episode"], row["target"]) for row in cp["snapshots"]} == {
        (episode, target) for episode in (1, 2, 3) for target in ("One", "Two")
    }
    assert before["snapshots"] == []
    assert (before["results"]["rows"], before["results"]["paired"]) == (cp["results"]["rows"], cp["results"]["paired"])
    assert "--best-on-target" in cp["command"]
    assert record(out, "frozen-2shot-seed0")["snapshots"] == []
    heading = (out / "table.csv").read_text().splitlines()[0]
    assert ("last epoch" in heading, "not allowed" in heading) == (True, True)
    assert "not allowed" not in (plain / "table.csv").read_text()
    assert not (plain / "runs" / RUN / "snapshots").exists()
    capsys.readouterr()
    assert ablate(recipe, plain, *only, "--best-on-target") == 2
    assert "best_on_target: None, now True" in capsys.readouterr().err


def test_snapshots_are_read_as_their_row_is(recipe, tmp_path):
    reading = ("--read-pooling", "depth", "--read-head", "ridge", "--select", "last")
    assert ablate(recipe, tmp_path / "out", "--validate-every", "1", "--only", "CP", "--best-on-target", *reading) == 0
    cp = record(tmp_path / "out")
    last = {row["target"]: row["accuracy"] for row in cp["snapshots"] if row["episode"] == 3}
    assert last == {row["target"]: row["accuracy"] for row in cp["results"]["rows"] if row["method"] == "CP"}


def test_a_second_ablation_into_one_folder_gets_a_sentence(recipe, tmp_path, capsys):
    with only_writer(tmp_path / "out"):
        assert ablate(recipe, tmp_path / "out", "--only", "frozen") == 2
    assert "is being written by another process" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_command_in_a_record_repeats_exactly_this_run(recipe, tmp_path):
    assert ablate(recipe, tmp_path / "out", "--episodes", "2", "--only", "Prompts", "--rates", "own", "--no-sst") == 0
    first = record(tmp_path / "out", "prompts-own-rate-2shot-seed0")
    assert (first["settings"]["lr"], first["settings"]["episodes"], first["settings"]["sst"]) == (0.01, 2, False)
    words = shlex.split(first["command"])
    assert words[:2] == ["cplsr", "ablate"]
    assert main(words[1:]) == 0
    again = record(tmp_path / "out-again", "prompts-own-rate-2shot-seed0")
    assert again["results"]["rows"] == first["results"]["rows"]
    assert again["settings"] == first["settings"]


def test_interrupted_by_a_person_then_continued(recipe, tmp_path, monkeypatch, capsys):
    ablate(recipe, tmp_path / "whole", "--only", "CP")
    real = loop.Run._episodes

    def interrupted(self, first, at_once):
        if first == 2:
            raise KeyboardInterrupt
        return real(self, first, at_once)

    monkeypatch.setattr("cplsr.training.run.SAVE_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(loop.Run, "_episodes", interrupted)
        assert ablate(recipe, tmp_path / "cut", "--only", "CP") == 130
    assert not (tmp_path / "cut" / f"{RUN}.json").exists()
    assert ablate(recipe, tmp_path / "cut", "--list") == 0
    assert "begun" in capsys.readouterr().out
    done = []
    monkeypatch.setattr(loop.Run, "_episodes", lambda *a: done.append(a[1]) or real(*a))
    assert ablate(recipe, tmp_path / "cut", "--only", "CP") == 0
    assert done == [2]
    assert record(tmp_path / "cut")["results"]["rows"] == record(tmp_path / "whole")["results"]["rows"]
    adapters = [tmp_path / out / "runs" / RUN / "last" / "adapter.safetensors" for out in ("cut", "whole")]
    assert adapters[0].read_bytes() == adapters[1].read_bytes()


def test_killed_then_continued_ends_with_the_same_bits(recipe, tmp_path):
    ablate(recipe, tmp_path / "whole", "--only", "CP", "--episodes", "12")
    code = (
        "import sys, time\nfrom cplsr.training import loop, run\nrun.SAVE_SECONDS = 0.0\n"
        "real = loop.Run._episodes\ndef slow(self, *a):\n    time.sleep(0.2)\n    return real(self, *a)\n"
        "loop.Run._episodes = slow\nfrom cplsr.cli import main\nsys.exit(main(sys.argv[1:]))"
    )
    out = tmp_path / "killed"
    words = ["ablate", str(recipe), "--out", str(out), "--only", "CP", "--episodes", "12"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ}
    )
    metrics = out / "runs" / RUN / "metrics.jsonl"
    while process.poll() is None and not (metrics.is_file() and '"episode": 4' in metrics.read_text()):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (out / f"{RUN}.json").exists()
    assert ablate(recipe, out, "--only", "CP", "--episodes", "12") == 0
    assert record(out)["results"]["rows"] == record(tmp_path / "whole")["results"]["rows"]


def test_failed_runs_are_told_in_the_caption_and_by_the_exit_code(recipe, tmp_path, capsys):
    recipe.write_text(recipe.read_text() + '[rows."Odd [bold]"]\nadapter_options = { layers = [7] }\n')
    assert ablate(recipe, tmp_path / "out", "--only", "Odd [bold]", "frozen") == 1
    shown = capsys.readouterr()
    assert "Odd [bold], 2-shot, seed 0 failed: layers [7] do not exist" in shown.err
    caption = (tmp_path / "out" / "table.md").read_text()
    assert "Failed: Odd [bold], 2-shot, seed 0: layers [7] do not exist" in caption
    assert "| frozen |" in caption
    assert "layers [7]" in shown.out


def test_tuning_uses_validation_and_the_best_rate_is_the_own_rate(recipe, tmp_path, capsys):
    out = tmp_path / "out"
    assert ablate(recipe, out, "--only", "Prompts", "frozen", "--tune", "--rates", "both") == 0
    tuned = json.loads((out / "tuning.json").read_text())["rows"]["Prompts"]
    told = {
        rate: json.loads((out / "tuning" / f"prompts-lr{rate}-2shot-seed0" / "run.json").read_text())["last_accuracy"]
        for rate in ("0.001", "0.1")
    }
    assert tuned["validation_accuracy"] == told
    best = max(told, key=lambda rate: (told[rate], -float(rate)))
    assert tuned["rate"] == float(best)
    assert record(out, "prompts-own-rate-2shot-seed0")["settings"]["lr"] == float(best)  # and not the recipe's lr_own
    assert record(out, "prompts-2shot-seed0")["settings"]["lr"] == 1e-3
    assert f"own rate of Prompts: {best}" in capsys.readouterr().err
    assert "| Prompts, own rate |" in (out / "table.md").read_text()


def test_other_settings_under_the_same_name_are_an_error(recipe, tmp_path, capsys):
    assert ablate(recipe, tmp_path / "out", "--only", "frozen") == 0
    assert ablate(recipe, tmp_path / "out", "--only", "frozen", "--episodes", "9") == 0  # it is not trained
    assert ablate(recipe, tmp_path / "out", "--only", "frozen", "--evaluation-episodes", "9") == 2
    assert "evaluation_episodes: 20, now 9" in capsys.readouterr().err


def test_ray_is_asked_as_the_options_say(recipe, tmp_path, monkeypatch, capsys):
    asked = []

    def instead(jobs, options):
        asked.append(options)
        yield from engines.run_local(jobs, Workspace(jobs[0].setup))

    monkeypatch.setattr(engines, "run_on_ray", instead)
    words = ["--engine", "ray", "--ray-workers", "2", "--ray-gpus", "0.5", "--ray-address", "auto"]
    assert ablate(recipe, tmp_path / "out", "--only", "frozen", *words) == 0
    assert RaySettings.of(*asked) == RaySettings(ray_address="auto", ray_workers=2, ray_gpus=0.5)
    assert "frozen, 2-shot, seed 0: done" in capsys.readouterr().err
    assert "--ray" not in record(tmp_path / "out", "frozen-2shot-seed0")["command"]


def test_a_dry_run_lists_the_runs_and_another_size_than_the_recipes_is_told(recipe, tmp_path, capsys):
    recipe.write_text(f"image_size = 48\n{recipe.read_text()}")
    assert ablate(recipe, tmp_path / "out", "--dry-run", "--image-size", "32") == 0
    shown = capsys.readouterr()
    assert "3 runs" in shown.out
    assert "not begun" in shown.out
    assert "the recipe is for --image-size 48, the command says 32, which is used" in shown.err
    assert not (tmp_path / "out").exists()


def test_list_shows_what_is_finished(recipe, tmp_path, capsys):
    ablate(recipe, tmp_path / "out", "--only", "frozen")
    capsys.readouterr()
    assert ablate(recipe, tmp_path / "out", "--list", "--shots", "1", "2", "--rates", "both") == 0
    lines = capsys.readouterr().out.splitlines()
    states = {
        (row, int(shot)): state
        for row, state, shot, *_ in ([cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line)
    }
    assert states == {
        ("CP", 1): "not begun",
        ("CP", 2): "not begun",
        ("frozen", 1): "not begun",
        ("frozen", 2): "finished",
        ("Prompts", 1): "not begun",
        ("Prompts", 2): "not begun",
        ("Prompts, own rate", 1): "not begun",
        ("Prompts, own rate", 2): "not begun",
    }


def test_a_target_on_the_command_line_replaces_those_of_the_recipe(recipe, tmp_path, domains):
    assert ablate(recipe, tmp_path / "out", "--only", "frozen", "--target", f"Three={domains / 'two'}") == 0
    found = record(tmp_path / "out", "frozen-2shot-seed0")
    assert {row["target"] for row in found["results"]["rows"]} == {"Three"}
    assert f"--target Three={(domains / 'two').relative_to(tmp_path.parent)}" in found["command"]


def test_a_narrow_screen_gets_a_table_for_each_shot(recipe, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "70")
    assert ablate(recipe, tmp_path / "out", "--only", "frozen", "--shots", "1", "2") == 0
    shown = capsys.readouterr().out
    assert shown.count("│ frozen") == 2
    assert "…" not in shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("episods = 3", "did you mean 'episodes'"),
        ("shot = 5", "write shots = [1, 5]"),
        ('[rows."A"]\nepisods = 3', "the row 'A' has an unknown setting 'episods': did you mean 'episodes'"),
        ('[rows."A"]\nadapter = "lra"', "did you mean 'lora'"),
        ("lr = 1e-3", "no rows to run"),
        ('[rows."A"]', "no target"),
        ('target = ["digits"]\n[rows."A"]', "no base domain"),
        ('target = ["digits"]\nbase = "digits"\nseeds = []\n[rows."A"]', "seeds are []"),
        ('tune_rates = ["x"]', "tune_rates is ['x']: a number was wanted, not text"),
    ],
)
def test_a_wrong_recipe_is_a_sentence(tmp_path, capsys, text, words):
    (tmp_path / "r.toml").write_text(text)
    assert ablate(tmp_path / "r.toml", tmp_path / "out") == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_missing_folder_is_a_sentence(recipe, capsys):
    assert main(["ablate", str(recipe)]) == 2
    assert "--out DIR" in capsys.readouterr().err


@pytest.mark.parametrize(
    "recipe", [p for p in sorted(RECIPE.parent.glob("*.toml")) if "[rows." in p.read_text()], ids=lambda path: path.stem
)
def test_every_recipe_with_rows_is_valid_and_begins_with_its_command(recipe):
    options = Ablate(**read_recipe(recipe, Ablate))
    assert recipe.read_text().splitlines()[0].startswith(f"# cplsr ablate recipes/{recipe.name} ")
    runs = plan_runs(read_rows(options.rows), TrainingSettings(lr=options.lr), shots=[5], seeds=[0])
    assert len(runs) == len(options.rows)


def test_the_recipe_of_the_papers_ablation_has_all_its_rows():
    options = Ablate(**read_recipe(RECIPE, Ablate))
    assert len(options.rows) == len(tomllib.loads(RECIPE.read_text())["rows"]) == 14
    assert options.shots == (1, 5)


def test_every_row_of_that_recipe_runs(checkpoint_file, domains, tmp_path):
    words = [
        *("--backbone", str(checkpoint_file), "--heads", "2", "--image-size", "32", "--base", str(domains / "base")),
        *("--target", f"One={domains / 'one'}", "--shots", "2", "--way", "2", "--query", "2", "--episodes", "1"),
        *("--validation-episodes", "4", "--candidates", "6", "--pseudo-episodes", "2", "--shrinkage", "ledoit_wolf"),
        *("--evaluation-episodes", "9", "--evaluation-query", "2", "--workers", "0", "--threads", "1", "--lr", "1e-2"),
    ]
    assert ablate(RECIPE, tmp_path / "out", *words) == 0
    names = [line.split("|")[1].strip() for line in (tmp_path / "out" / "table.md").read_text().splitlines()[4:18]]
    assert names == list(tomllib.loads(RECIPE.read_text())["rows"])
    counts = {record["row"]: record["training"] for record in map(_read, (tmp_path / "out").glob("*-seed0.json"))}
    assert counts["frozen"] is None
    assert counts["AttnScale + PE + SST"]["parameters"] == 2 * 2 * 17 * 17
    assert counts["Soft prompts, length 8 + PE + SST"]["parameters"] == 2 * 8 * 64
    assert counts["LoRA, rank 4 + PE + SST"]["parameters"] == 2 * 2 * 2 * 4 * 64


def _read(path: Path) -> dict:
    return json.loads(path.read_text())


def test_importing_the_command_loads_nothing_heavy():
    assert heavy_after("import cplsr.cli.ablate") == set()
