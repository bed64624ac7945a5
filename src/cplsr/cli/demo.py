"""`cplsr demo`: the whole job on what comes with the package."""

from __future__ import annotations

import dataclasses
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from cplsr.cli.recipes import read_recipe
from cplsr.cli.train import Train

if TYPE_CHECKING:
    from rich.console import Console

    from cplsr.data.domain import Domain
    from cplsr.evaluation.results import Results
    from cplsr.training.loop import TrainingResult

TARGETS = ("procedural:radiograph", "procedural:dermoscopy", "procedural:landcover", "procedural:leaf", "digits")
BASE_IMAGES = 40
EPISODES, FULL_EPISODES = 1000, 5000


@dataclass(frozen=True)
class Demo:
    """Train coalescent projections on procedural images, then measure them on five domains they have never seen.

    Everything comes with the package: the embedded backbone, the images (made by code), scikit-learn's digits.
    """

    out: Path = Path("runs/demo")
    """Folder for the run and results.json."""
    full: bool = False
    """Without the cuts that keep it under three minutes; takes hours."""
    seed: int = 0
    """Decides episodes and pseudo-episodes."""


def main(arguments: list[str]) -> int:
    """Parse the options and run."""
    options = tyro.cli(Demo, args=arguments, prog="cplsr demo")
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    result = train_demo(options, console)
    results = measure(options, result, console)
    results.write(options.out / "results.json")
    close(results, result, options, console)
    return 0


def train_demo(options: Demo, console: Console) -> TrainingResult:
    """Statistics, pseudo-episodes and training, by the demo recipe or in full."""
    from cplsr.backbones.load import load_backbone
    from cplsr.data.open import open_domain
    from cplsr.training.loop import train
    from cplsr.training.settings import TrainingSettings

    recipe = Train(**read_recipe(Path("demo.toml"), Train))
    names = {field.name for field in dataclasses.fields(TrainingSettings)}
    settings = TrainingSettings(**{name: getattr(recipe, name) for name in names} | {"seed": options.seed})
    if options.full:
        settings = TrainingSettings(lr=recipe.lr, shot=recipe.shot, seed=options.seed)
    backbone = load_backbone(recipe.backbone)
    base = open_domain(recipe.base)
    if not options.full:
        base = first_images(base, BASE_IMAGES)
    console.print(
        f"[bold]1. Training[/] coalescent projections for the {recipe.backbone} backbone ({backbone.layers} layers, "
        f"{backbone.heads} heads, {backbone.image_size} px)\n   on {len(base):,} made-up photos of {len(base.classes)} "
        "classes."
    )
    if not options.full:
        console.print(
            f"   Cut for speed: {BASE_IMAGES} images per class, Ledoit-Wolf covariances, {settings.query} queries,\n"
            f"   {settings.episodes} base episodes (the paper: 1,000), {EPISODES:,} evaluation episodes; "
            "--full cuts nothing."
        )
    run = options.out / "run"
    if (run / "run.json").is_file():
        shutil.rmtree(run)
    return train(backbone, base, out=run, adapter=recipe.adapter, settings=settings)


def first_images(domain: Domain, count: int) -> Domain:
    """The first images of every class."""
    import numpy as np

    chosen = [np.flatnonzero(domain.labels == label)[:count] for label in range(len(domain.classes))]
    return domain.select(np.concatenate(chosen))


def measure(options: Demo, result: TrainingResult, console: Console) -> Results:
    """The frozen backbone and the adapter on the same episodes of every target."""
    from cplsr.backbones.load import load_backbone
    from cplsr.cli.evaluate import show_tables
    from cplsr.data.open import open_domain
    from cplsr.evaluation.cache import EmbeddingCache
    from cplsr.evaluation.evaluate import EpisodeSettings, evaluate

    console.print(
        f"[bold]2. Measuring[/] on {len(TARGETS)} domains that training never saw, frozen and with the projections,\n"
        "   on the same episodes."
    )
    targets = {source.rpartition(":")[2]: open_domain(source) for source in TARGETS}
    results = evaluate(
        load_backbone("embedded"),
        targets,
        adapters=[("CPLSR", result.folder)],
        settings=EpisodeSettings(episodes=FULL_EPISODES if options.full else EPISODES, seed=options.seed),
        cache=EmbeddingCache(),
    )
    show_tables(results, console)
    return results


def close(results: Results, result: TrainingResult, options: Demo, console: Console) -> None:
    """What came of it, in plain words, and what to try next."""
    better = [row for row in results.paired if row.ci95 is not None and row.difference > row.ci95]
    worse = [row for row in results.paired if row.ci95 is not None and row.difference < -row.ci95]
    mean = sum(row.difference for row in results.paired) / len(results.paired)
    what = "gained" if mean >= 0 else "lost"
    console.print(
        "[bold]3. What came of it[/]\n"
        f"   Averaged over targets and shots, the projections {what} {abs(mean):.2f} points over the frozen backbone;\n"
        f"   of {len(results.paired)} comparisons {len(better)} are clearly better, {len(worse)} clearly worse, "
        "the rest within chance.\n"
        f"   Validation classes: {result.start_accuracy:.2f} % before, "
        f"{result.best_accuracy:.2f} % with the adapter that was kept (episode {result.best_episode}).\n"
        f"   Written: {options.out / 'results.json'}, {options.out / 'run'}{os.sep}"
    )
    console.print(
        "[bold]Next, on your own images[/] (a folder with one folder per class):\n"
        "   cplsr data doctor FOLDER --as folder            is anything wrong with them?\n"
        "   cplsr evaluate --target MINE=FOLDER             what accuracy to expect from a few labels\n"
        "   cplsr train --base FOLDER --out runs/mine       train on your own base images",
        markup=True,
    )
