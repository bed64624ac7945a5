"""`cplsr evaluate`, as it is called."""

import io
import json
import shlex
from dataclasses import replace

import numpy as np
import pytest
from oracles.fresh_process import heavy_after
from oracles.random_vit import tiny_vit
from PIL import Image
from rich.console import Console

from cplsr.adapters.attach import attach
from cplsr.adapters.store import save_adapter
from cplsr.backbones.load import load_backbone
from cplsr.cli.evaluate import default_adapter_name, main, show_tables, split_name
from cplsr.cli.report import main as report
from cplsr.errors import InputError
from cplsr.records.results import AccuracyRow, Results


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CPLSR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def model(tmp_path):
    tiny_vit().save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


@pytest.fixture
def images(tmp_path):
    generator = np.random.default_rng(0)
    for name in ("red [1]", "green", "blue", "grey"):
        (tmp_path / "images" / name).mkdir(parents=True)
        center = generator.integers(60, 190, 3)
        for number in range(8):
            color = tuple(int(c) for c in center + generator.integers(-30, 30, 3))
            Image.new("RGB", (20, 20), color).save(tmp_path / "images" / name / f"{number}.png")
    return tmp_path / "images"


def common(model):
    return ["--backbone", model, "--mean", "0.5", "0.5", "0.5", "--std", "0.5", "0.5", "0.5", "--device", "cpu",
            "--workers", "0", "--way", "3", "--query", "4", "--episodes", "30"]  # fmt: skip


def test_frozen_and_adapter_from_folders_to_results(tmp_path, model, images, capsys):
    backbone = load_backbone(model, 24, mean=(0.5,) * 3, std=(0.5,) * 3)
    attach(backbone, "coalescent", init="near_identity")
    save_adapter(backbone, tmp_path / "runs" / "first" / "adapter", shot=2)
    out = tmp_path / "out" / "results.json"

    code = main(
        [*common(model), "--target", f"[odd] name={images}", "--target", f"{images}", "--shots", "1", "2",
         "--adapter", f"{tmp_path / 'runs' / 'first'}", "--adapter", f"CP={tmp_path / 'runs' / 'first'}",
         "--out", str(out)]
    )  # fmt: skip

    results = json.loads(out.read_text(encoding="utf-8"))
    assert code == 0
    assert {row["method"] for row in results["rows"]} == {"frozen", "first", "CP"}
    assert {row["target"] for row in results["rows"]} == {"[odd] name", "images"}
    assert {row["shot"] for row in results["rows"]} == {1, 2}
    assert all(0 <= row["accuracy"] <= 100 for row in results["rows"])
    assert len(results["paired"]) == 8
    assert results["settings"]["backbone"]["image_size"] == 24  # the adapter's
    assert shlex.split(results["settings"]["command"])[:2] == ["cplsr", "evaluate"]
    assert shlex.split(results["settings"]["command"])[-2:] == ["--out", "out/results.json"]
    printed = capsys.readouterr().out
    for word in ("[odd] name", "2-shot", "average", "frozen", "Difference on the same episodes", str(out)):
        assert word in printed


def test_the_second_run_embeds_nothing_and_says_the_same(tmp_path, model, images, monkeypatch):
    out = tmp_path / "results.json"
    main([*common(model), "--target", str(images), "--shots", "1", "--out", str(out)])
    first = out.read_text(encoding="utf-8")
    monkeypatch.setattr("cplsr.evaluation.embed.decode", None)

    main([*common(model), "--target", str(images), "--shots", "1", "--out", str(out)])

    assert first == out.read_text(encoding="utf-8")
    with pytest.raises(TypeError):  # without the cache it has to decode
        main([*common(model), "--target", str(images), "--no-cache"])


def test_match_shot(tmp_path, model, images):
    backbone = load_backbone(model, mean=(0.5,) * 3, std=(0.5,) * 3)
    attach(backbone, "coalescent")
    save_adapter(backbone, tmp_path / "cp", shot=2)
    out = tmp_path / "results.json"

    main([*common(model), "--target", str(images), "--shots", "1", "2", "--adapter", str(tmp_path / "cp"),
          "--match-shot", "--out", str(out)])  # fmt: skip

    rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    assert [(row["method"], row["shot"]) for row in rows] == [("frozen", 1), ("frozen", 2), ("cp", 2)]


def test_bad_requests_are_one_sentence(tmp_path, model, images):
    with pytest.raises(InputError, match="no target"):
        main(common(model))
    with pytest.raises(InputError, match="two targets are called 'images'"):
        main([*common(model), "--target", str(images), "--target", str(images)])
    with pytest.raises(InputError, match="4-way episodes need 4 classes with 1 shot"):
        main([*common(model), "--target", str(images), "--way", "4", "--query", "9"])
    for size in (16, 24):
        backbone = load_backbone(model, size, mean=(0.5,) * 3, std=(0.5,) * 3)
        attach(backbone, "coalescent")
        save_adapter(backbone, tmp_path / f"cp{size}")
    adapters = ["--adapter", str(tmp_path / "cp16"), "--adapter", str(tmp_path / "cp24")]
    with pytest.raises(InputError, match=r"different image sizes .* --image-size"):
        main([*common(model), "--target", str(images), *adapters])


def test_names_and_sources(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b").mkdir()

    assert split_name("EuroSAT=/data/eurosat") == ("EuroSAT", "/data/eurosat")
    assert split_name("/data/a=b") == (None, "/data/a=b")
    assert split_name("a=b") == (None, "a=b")  # it exists
    assert split_name("procedural:leaf") == (None, "procedural:leaf")
    assert split_name("x=hf:user/name@train") == ("x", "hf:user/name@train")
    for incomplete in ("=folder", "name="):
        with pytest.raises(InputError, match="NAME=SOURCE"):
            split_name(incomplete)
    assert default_adapter_name("runs/first") == "first"
    assert default_adapter_name("runs/first/adapter/") == "first"
    assert default_adapter_name("hf:user/name") == "user/name"


def test_importing_the_command_loads_nothing_heavy():
    assert heavy_after("import cplsr.cli.evaluate, cplsr.cli.cache, cplsr.cli.published") == set()


@pytest.mark.parametrize("columns", ["60", "200"])
def test_no_figure_is_cut_short_on_a_narrow_screen(model, images, monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", columns)
    targets = [word for name in "abcd" for word in ("--target", f"target {name}={images}")]

    assert main([*common(model), *targets, "--shots", "1", "2"]) == 0

    shown = capsys.readouterr().out
    assert "…" not in shown
    assert "target d" in shown
    assert ("2-shot" in shown) == (columns == "200")


def test_other_classifiers_answer_the_same_episodes(tmp_path, model, images, capsys):
    out = tmp_path / "results.json"

    main([*common(model), "--target", f"[odd]={images}", "--shots", "1", "2", "--head", "prototypes", "logistic", "knn",
          "--out", str(out)])  # fmt: skip

    results = json.loads(out.read_text(encoding="utf-8"))
    assert [row["method"] for row in results["paired"]] == ["frozen logistic", "frozen knn"] * 2
    knn = {row["shot"]: row["accuracy"] for row in results["rows"] if row["method"] == "frozen knn"}
    frozen = {row["shot"]: row["accuracy"] for row in results["rows"] if row["method"] == "frozen"}
    assert knn[1] == frozen[1]  # the nearest image is the nearest prototype
    printed = capsys.readouterr().out
    lines = {line.partition(":")[0]: line for line in printed.splitlines() if "lowest recall (shot 2): [odd] " in line}
    assert set(lines) == {"frozen", "frozen logistic", "frozen knn"}
    mean = sum(row["ece"] for row in results["calibration"] if row["method"] == "frozen") / 2
    assert f"mean ECE {mean:.3f}" in lines["frozen"]
    assert "ECE" not in lines["frozen knn"]
    counted = next(row for row in results["confusion"] if (row["method"], row["shot"]) == ("frozen", 2))
    hardest = counted["classes"][counted["recall"].index(min(counted["recall"]))]
    assert f"[odd] {hardest} {min(counted['recall']):.0%}" in lines["frozen"]


def test_head_options_and_both_kinds_of_queries(tmp_path, model, images, capsys):
    out = tmp_path / "results.json"
    words = [*common(model), "--target", f"one={images}", "--shots", "1"]

    main([*words, "--head", "ridge", "ridge:penalty=1", "em:gamma=1,iterations=3", "--queries", "balanced", "dirichlet",
          "--out", str(out)])  # fmt: skip

    methods = ["frozen ridge", "frozen ridge penalty=1", "frozen em gamma=1 iterations=3"]
    for part in (json.loads(out.read_text()), json.loads(out.read_text())["dirichlet"]):
        assert [(row["method"], row["together"]) for row in part["rows"]] == [*zip(methods, (0, 0, 1), strict=True)]
        assert [row["method"] for row in part["paired"]] == methods[1:]
    printed = " ".join(capsys.readouterr().out.split())
    assert "frozen em gamma=1 iterations=3 †" in printed
    assert "significantly above or below frozen ridge on the same episodes" in printed
    assert report([str(out), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "one<br>Dirichlet" in page
    assert "frozen em gamma=1 iterations=3 †" in page
    for head, said in (("rigde", "did you mean 'ridge'"), ("ridge:penalty=-1", "penalty is -1: give a number above 0"),
                       ("ridge:", "is incomplete"), ("ridge:lambda=1", "unknown setting 'lambda'")):  # fmt: skip
        with pytest.raises(InputError, match=said):
            main([*words, "--head", head])


def vit_s_results(backbone=(("layers", 12), ("dim", 384), ("heads", 6), ("patch_size", 16)), images=27_000, way=5):
    rows = [
        AccuracyRow(method, target, shot, way, 15, 100, 0, None, accuracy, 0.5)
        for method, accuracy in (("frozen", 70.0), ("CP", 71.0))
        for target in ("my images", "other")
        for shot in (1, 5, 20)
    ]
    data = {
        "my images": {"name": "EuroSAT", "images": images, "classes": {f"class {n}": images // 10 for n in range(10)}}
    }
    settings = {"backbone": {**dict(backbone), "image_size": 224}}
    return Results(rows=tuple(rows), settings=settings, data=data)


def shown(results, width):
    console = Console(width=width, file=io.StringIO())
    show_tables(results, console)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 200])
def test_the_papers_figures_are_named_and_stand_elsewhere(width):
    text = shown(vit_s_results(), width)

    assert "cplsr published --beside RESULTS.json" in text.replace("\n", " ")
    assert text.count("±") == 1 + 12  # caption, ours
    others = replace(vit_s_results(), data={})
    assert "published" not in shown(others, width)


def test_a_long_method_name_is_whole_in_every_table():
    name = "coalescent-projections-trained-by-ridge-regression-over-all-blocks"
    results = vit_s_results()
    rows = tuple(replace(row, method=name) if row.method == "CP" else row for row in results.rows)

    wide = shown(replace(results, rows=rows), 200)
    assert name in wide
    assert "…" not in wide + shown(replace(results, rows=rows), 70)


def test_depth_embeddings_of_some_blocks(tmp_path, model, images, capsys):
    words = [*common(model), "--target", f"{images}", "--shots", "1", "--pooling", "depth"]
    assert main([*words, "--layers", "0", "-1", "--out", str(tmp_path / "all.json")]) == 0
    told = json.loads((tmp_path / "all.json").read_text())["settings"]["backbone"]
    assert (told["pooling"], told["pooled_layers"]) == ("depth", [0, 1])
    with pytest.raises(InputError, match=r"layers \[7\] do not exist; the backbone has 2"):
        main([*words, "--layers", "7"])
    with pytest.raises(InputError, match=r"layers \[1\] were given with pooling cls"):
        main([*words[:-2], "--layers", "1"])
