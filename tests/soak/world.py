"""One of everything that commands read and write, small: a checkpoint, images, a run, results, a saved classifier."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from oracles.color_folders import color_folders
from oracles.random_vit import random_checkpoint
from safetensors.torch import save_file

from cplsr.cli import main

HOW = ["--heads", "2", "--device", "cpu", "--workers", "0"]
TRAINING = [
    *("--way", "2", "--shot", "2", "--query", "2", "--episodes", "4", "--lr", "1e-3", "--validation-episodes", "4"),
    *("--candidates", "6", "--pseudo-episodes", "2", "--validate-every", "2", "--shrinkage", "ledoit_wolf"),
    *("--threads", "1"),
]
EPISODES = ["--way", "2", "--query", "2", "--shots", "2"]
ROWS = '[rows."CP"]\n[rows."frozen"]\nadapter = "frozen"\n'


class World:
    """Where things are under `root`, and the command of every verb that works on them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.checkpoint = root / "vit.safetensors"
        self.base, self.target = root / "base", root / "target"
        self.table = root / "target.csv"
        self.recipe, self.ablation_recipe = root / "train.toml", root / "ablate.toml"
        self.run, self.results, self.analysis = root / "run", root / "results.json", root / "analysis"
        self.model, self.ablation = root / "model", root / "ablation"

    @property
    def backbone(self) -> list[str]:
        return ["--backbone", str(self.checkpoint), *HOW]

    def train(self, out: Path, *more: str) -> list[str]:
        return ["train", *self.backbone, *TRAINING, "--base", str(self.base), "--out", str(out), *more]

    def evaluate(self, out: Path, *more: str) -> list[str]:
        target = ["--target", f"target={self.target}", "--adapter", f"run={self.run}"]
        return ["evaluate", *self.backbone, *EPISODES, "--episodes", "20", *target, "--out", str(out), *more]

    def classify(self, out: Path, *more: str) -> list[str]:
        words = ["--support", str(self.base), "--query", str(self.target), "--batch-size", "2"]
        return ["classify", *self.backbone, *words, "--out", str(out), *more]

    def ablate(self, out: Path, *more: str) -> list[str]:
        return ["ablate", str(self.ablation_recipe), "--out", str(out), *more]

    def analyze(self, out: Path, *more: str) -> list[str]:
        words = ["--way", "2", "--shots", "2", "--target", f"target={self.target}", "--adapter", str(self.run)]
        return ["analyze", *self.backbone, *words, "--out", str(out), *more]

    def report(self, out: Path, *more: str) -> list[str]:
        return ["report", str(self.results), str(self.run), "--out", str(out), *more]

    def export(self, out: Path, *more: str) -> list[str]:
        return ["export", "--adapter", str(self.run), "--to", "timm", "--out", str(out), *more]


def make_world(root: Path) -> World:
    """Build it by the commands themselves, in this process, which thereby imports all that its copies will need."""
    world = World(root)
    root.mkdir(parents=True, exist_ok=True)
    os.environ["CPLSR_CACHE"] = str(root / "cache")
    save_file(random_checkpoint(dim=32, layers=2, patch=8, image=32), world.checkpoint)
    color_folders(root, ("base", "target"), prefix="c", colors=(60, 190), key=5)
    images = [path.relative_to(root) for path in sorted(world.target.rglob("*.png"))]
    lines = [f"{path},{path.parent.name},{number % 9}\n" for number, path in enumerate(images)]
    world.table.write_text("path,label,group\n" + "".join(lines))
    common = f'backbone = "{world.checkpoint}"\nheads = 2\nbase = "{world.base}"\nway = 2\nquery = 2\nepisodes = 3\n'
    common += 'lr = 1e-3\nvalidation_episodes = 4\ncandidates = 6\npseudo_episodes = 2\nshrinkage = "ledoit_wolf"\n'
    common += "threads = 1\nworkers = 0\n"
    world.recipe.write_text(common + "shot = 2\nsst = true\n")
    more = f'target = ["target={world.target}"]\nshots = [2]\nevaluation_episodes = 20\nevaluation_query = 2\n'
    world.ablation_recipe.write_text(common + more + ROWS)
    for words in (
        world.train(world.run),
        world.evaluate(world.results),
        world.classify(root / "predictions.csv", "--save", str(world.model)),
        world.analyze(world.analysis),
        world.ablate(world.ablation),
    ):
        if main(words) != 0:
            raise RuntimeError(f"{words[0]} did not work on undamaged files")
    logging.getLogger().handlers.clear()  # they write to what was standard error at the time
    return world
