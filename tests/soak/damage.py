"""Damaged inputs, each a pure function of its kind and its seed, and what commands make of them.

python -m soak.damage --kind adapter --seed 123      shows one again, and keeps its files
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import importlib
import io
import json
import random
import re
import shutil
import sys
import tempfile
import typing
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from soak.forks import Ended, run
from soak.mutations import ODD_NUMBERS, damage_bytes, damage_csv, damage_json, damage_tensors, damage_toml, odd_png
from soak.world import EPISODES, HOW, World, make_world

Words = list[str]
Kind = Callable[[World, Path, random.Random], Words]
SECONDS = 60


def image(world: World, place: Path, draw: random.Random) -> Words:
    """One picture of a folder, of any format, among whole ones."""
    shutil.copytree(world.target / "c0", place / "query")
    form, suffix = draw.choice([("PNG", "png"), ("JPEG", "jpg"), ("GIF", "gif"), ("WEBP", "webp"), ("TIFF", "tif"),
                                ("BMP", "bmp")])  # fmt: skip
    mode = draw.choice(["RGB", "L", "P", "RGBA", "1", "CMYK", "I;16"])
    pixels = np.random.default_rng(draw.getrandbits(32)).integers(0, 255, (24, 20, 3)).astype(np.uint8)
    stream = io.BytesIO()
    try:
        Image.fromarray(pixels).convert("L" if mode == "I;16" else mode).save(stream, form)
    except (OSError, ValueError):  # not every format has every mode
        Image.fromarray(pixels).save(stream, form)
    suffix = draw.choice([suffix, suffix, "jpg", "png", "PNG", "jpeg"])
    content = damage_bytes(stream.getvalue(), draw) if draw.random() < 0.9 else odd_png(draw)
    (place / "query" / f"damaged.{suffix}").write_bytes(content)
    query = str(place / "query")
    return draw.choice([
        ["classify", "--model", str(world.model), "--query", query, "--workers", "0", "--out", "p.csv"],
        ["classify", "--model", str(world.model), "--query", f"{query}/damaged.{suffix}", "--workers", "0"],
        ["data", "doctor", ".", "--workers", "0", "--way", "1", "--shot", "1", "--query", "1"],
    ])  # fmt: skip


def checkpoint(world: World, place: Path, draw: random.Random) -> Words:
    """Weights as safetensors or pth: bytes, names, shapes, numbers."""
    tensors = load_file(world.checkpoint)
    file = place / draw.choice(["w.safetensors", "w.pth", "w.pt", "w.bin"])
    if draw.random() < 0.6:
        tensors = damage_tensors(tensors, draw)
    if file.suffix == ".safetensors":
        save_file(tensors, file)
    else:
        wrapped = draw.choice([tensors, {"state_dict": tensors}, {"teacher": tensors}, list(tensors.values()), 7])
        torch.save(wrapped, file)
    if draw.random() < 0.5:
        file.write_bytes(damage_bytes(file.read_bytes(), draw))
    if draw.random() < 0.2:
        sidecar = json.dumps({"heads": 2, "mean": [0.5] * 3, "std": [0.5] * 3})
        file.with_name(f"{file.name}.json").write_bytes(damage_json(sidecar, draw))
    words = ["classify", "--backbone", str(file), *HOW, "--support", str(world.base), "--query", _picture(world)]
    return (
        words if draw.random() < 0.8 else ["export", "--backbone", str(file), "--to", "timm", "--out", "e.safetensors"]
    )


def adapter(world: World, place: Path, draw: random.Random) -> Words:
    """The folder of an adapter: description or tensors."""
    folder = Path(shutil.copytree(world.run / "adapter", place / "adapter"))
    _damage_store(folder, "adapter", draw)
    target = ["--target", str(world.target), *EPISODES, "--episodes", "5"]
    return draw.choice([
        ["evaluate", *world.backbone, *target, "--adapter", str(folder)],
        ["classify", *world.backbone, "--support", str(world.base), "--query", _picture(world), "--adapter", "adapter"],
        ["export", "--adapter", str(folder), "--to", "timm", "--out", "e.safetensors"],
    ])  # fmt: skip


def store(world: World, place: Path, draw: random.Random) -> Words:
    """A saved classifier."""
    folder = Path(shutil.copytree(world.model, place / "model"))
    _damage_store(folder, "classifier", draw)
    return ["classify", "--model", str(folder), "--query", _picture(world), "--workers", "0"]


def trained(world: World, place: Path, draw: random.Random) -> Words:
    """The folder of a run: run.json or metrics.jsonl, reported on or continued."""
    folder = Path(shutil.copytree(world.run, place / "run"))
    file = folder / draw.choice(["run.json", "run.json", "metrics.jsonl"])
    if file.suffix == ".json":
        content = json.loads(file.read_text())
        content["finished"] = draw.random() < 0.5
        _replace(file, damage_json(json.dumps(content), draw), draw)
    else:
        lines = file.read_text().splitlines(keepends=True)
        chosen = draw.randrange(len(lines))
        lines[chosen] = damage_json(lines[chosen], draw).decode("utf-8", "replace") + draw.choice(["\n", ""])
        _replace(file, "".join(lines).encode(), draw)
    if draw.random() < 0.6:
        return ["report", str(folder), "--out", "report.html"]
    return world.train(folder, "--resume")


def results(world: World, place: Path, draw: random.Random) -> Words:
    """Results, an analysis, or the record of an ablation's run."""
    chosen = draw.choice(["results", "results", "analysis", "ablation"])
    if chosen == "results":
        file = place / "results.json"
        _replace(file, damage_json(world.results.read_text(), draw), draw)
        return draw.choice(
            [["report", str(file), "--out", "report.html"], ["published", "mini", "--beside", str(file)]]
        )
    folder = Path(shutil.copytree(getattr(world, chosen), place / chosen))
    names = ["analysis.json"] if chosen == "analysis" else sorted(file.name for file in folder.glob("*-seed*.json"))
    file = folder / draw.choice(names)
    _replace(file, damage_json(file.read_text(), draw), draw)
    if chosen == "ablation" and draw.random() < 0.5:
        return world.ablate(folder, "--list")
    return ["report", str(folder), "--out", "report.html"]


def recipe(world: World, place: Path, draw: random.Random) -> Words:
    """A recipe in TOML, for a training or for an ablation that is only listed."""
    ablation = draw.random() < 0.4
    source = world.ablation_recipe if ablation else world.recipe
    file = place / "recipe.toml"
    _replace(file, damage_toml(source.read_text(), draw), draw)
    if ablation:
        return ["ablate", str(file), "--out", "a", "--list"]
    return ["train", str(file), "--out", "run", "--episodes", "3", "--validation-episodes", "4", "--workers", "0"]


def table(world: World, place: Path, draw: random.Random) -> Words:
    """A csv of images and labels, or of images alone."""
    file = place / draw.choice(["t.csv", "t.csv", "t.tsv"])
    text = world.table.read_text().replace("target/", f"{world.target}/")
    _replace(file, damage_csv(text, draw), draw)
    return draw.choice([
        ["evaluate", *world.backbone, *EPISODES, "--episodes", "5", "--target", str(file)],
        ["classify", "--model", str(world.model), "--query", str(file), "--workers", "0"],
        ["classify", *world.backbone, "--support", str(file), "--query", _picture(world)],
        ["data", "doctor", str(file), "--workers", "0", "--way", "2", "--shot", "1", "--query", "1"],
    ])  # fmt: skip


def number(world: World, place: Path, draw: random.Random) -> Words:
    """An option that takes a number, with an odd one."""
    verb = draw.choice(["train", "evaluate", "classify", "analyze", "ablate", "check", "data", "export"])
    out = Path("e.safetensors" if verb == "export" else "out")
    words = {
        "check": ["check", str(world.base), *world.backbone],
        "data": ["data", "doctor", str(world.target), "--workers", "0"],
    }.get(verb) or getattr(world, verb)(out)
    words += ["--list"] if verb == "ablate" else []
    return [*words, f"--{draw.choice(_number_options(verb))}", draw.choice(ODD_NUMBERS)]


def cache(world: World, place: Path, draw: random.Random) -> Words:
    """A file of the cache, which must be noticed and made again."""
    folder = Path(shutil.copytree(world.root / "cache", place / "cache"))
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for file in files if draw.random() < 0.5 else [draw.choice(files)]:
        content = file.read_bytes()
        _replace(
            file, damage_json(content.decode(), draw) if file.suffix == ".json" else damage_bytes(content, draw), draw
        )
    return draw.choice([world.train(Path("run")), world.evaluate(Path("r.json")), ["cache", "info"]])


KINDS: dict[str, Kind] = {
    kind.__name__: kind for kind in (image, checkpoint, adapter, store, trained, results, recipe, table, number, cache)
}


def _picture(world: World) -> str:
    return str(world.target / "c0" / "0.png")


def _replace(file: Path, content: bytes, draw: random.Random) -> None:
    """Write the damaged file; now and then a folder stands in its place, or nothing."""
    file.unlink(missing_ok=True)
    chance = draw.random()
    if chance < 0.01:
        file.mkdir()
    elif chance < 0.99:
        file.write_bytes(content)


def _damage_store(folder: Path, name: str, draw: random.Random) -> None:
    """Damage a description, or tensors; half of those with a checksum that agrees, so that what is behind it is met."""
    description, tensors = folder / f"{name}.json", folder / f"{name}.safetensors"
    if draw.random() < 0.6:
        _replace(description, damage_json(description.read_text(), draw), draw)
        return
    if draw.random() < 0.3:
        _replace(tensors, damage_bytes(tensors.read_bytes(), draw), draw)
    else:
        save_file(damage_tensors(load_file(tensors), draw), tensors)
    if draw.random() < 0.6 and tensors.is_file():
        told = json.loads(description.read_text())
        told["sha256"] = hashlib.sha256(tensors.read_bytes()).hexdigest()
        description.write_text(json.dumps(told))


def _number_options(verb: str) -> list[str]:
    """Options of a verb that take a number, from its declaration."""
    module = importlib.import_module(f"cplsr.cli.{verb}")
    declared = module.Doctor if verb == "data" else getattr(module, verb.capitalize())
    hints = typing.get_type_hints(declared, include_extras=True)
    names = [field.name for field in dataclasses.fields(declared) if _takes_number(hints[field.name])]
    return [name.replace("_", "-") for name in names]


def _takes_number(kind: Any) -> bool:
    return kind in (int, float) or any(_takes_number(inner) for inner in typing.get_args(kind) if inner is not bool)


def verdict(words: Words, ended: Ended) -> str:
    """`success`, `refused`, or what should not have happened."""
    told = ended.err.strip() or (ended.out.strip() if words[:2] == ["data", "doctor"] else "")
    if "Traceback (most recent call last)" in ended.err:
        places = re.findall(r'/cplsr/(\S+)", line (\d+)', ended.err)
        where = ":".join(places[-1]) if places else "elsewhere"
        return f"traceback in {where}: {ended.err.strip().splitlines()[-1][:200]}"
    if ended.code == 0:
        return "success"
    if ended.code == 2 and told:
        return "refused"
    return f"ended with {ended.code}: {told[-200:]}"


def try_one(world: World, kind: str, seed: int, place: Path) -> tuple[Words, str]:
    """Damage, run, judge."""
    words = KINDS[kind](world, place, random.Random(f"{kind} {seed}"))
    return words, verdict(words, run(words, place, seconds=SECONDS))


def try_many(world: World, count: int, seed: int) -> Iterator[tuple[str, int, str]]:
    """`count` damaged inputs, the kinds in turn: (kind, its seed, verdict)."""
    for index in range(count):
        kind = list(KINDS)[index % len(KINDS)]
        with tempfile.TemporaryDirectory(prefix="cplsr-damage-", ignore_cleanup_errors=True) as place:
            yield kind, seed + index // len(KINDS), try_one(world, kind, seed + index // len(KINDS), Path(place))[1]


def damage_all(world: World, count: int, seed: int) -> int:
    """Try them, print the counts of every kind and all failures; returns how many failed."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    failures = 0
    for kind, number, found in try_many(world, count, seed):
        counts[kind][found if found in ("success", "refused") else "failed"] += 1
        if found not in ("success", "refused"):
            failures += 1
            print(f"FAILED --kind {kind} --seed {number}: {found}", flush=True)
    for kind, counted in counts.items():
        told = ", ".join(f"{counted[name]} {name}" for name in ("success", "refused", "failed"))
        print(f"{kind}: {counted.total()} damaged, {told}")
    return failures


def main(arguments: list[str] | None = None) -> int:
    """Show one case again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=sorted(KINDS), required=True)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    root = Path(tempfile.mkdtemp(prefix="cplsr-damage-"))
    world, place = make_world(root / "world"), root / "case"
    place.mkdir()
    words, found = try_one(world, options.kind, options.seed, place)
    print(f"{'-' * 40}\ncplsr {' '.join(words)}\nin {place}\n{found}\n{(place / '.err').read_text(errors='replace')}")
    return int(found not in ("success", "refused"))


if __name__ == "__main__":
    sys.exit(main())
