"""`cplsr demo`: the whole job on what comes with the package."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cplsr
from cplsr.cli import evaluate
from cplsr.cli.options import parse, read_recipe
from cplsr.cli.terminal import print_plain, terminal
from cplsr.cli.train import Train
from cplsr.declared import Declared
from cplsr.settings.analysis import AnalysisSettings
from cplsr.settings.numbers import Seed
from cplsr.settings.training import TrainingSettings

if TYPE_CHECKING:
    from rich.console import Console

PROCEDURAL = ("radiograph", "dermoscopy", "landcover", "leaf")
TARGETS = (*(f"{name}=procedural:{name}" for name in PROCEDURAL), "digits")
BASE_IMAGES, TARGET_IMAGES = 20, 25
EPISODES, FULL_EPISODES = 1000, 5000
ENTROPY_IMAGES, PICTURES = 16, 2
METHOD = "CPLSR"
NEXT = """[bold]Next, on your own images[/] (a folder with one folder per class):
   cplsr check FOLDER                                    what to expect from these examples
   cplsr classify --support FOLDER --query OTHERS --out predictions.csv
                                                         label other images from them
   cplsr evaluate --target MINE=FOLDER --out mine.json   accuracy in episodes, with intervals
   cplsr train --base PHOTOS --out runs/mine             train on base images of your own
   cplsr report mine.json runs/mine --out report.html    a page like this one"""


@dataclass(frozen=True)
class Demo(Declared):
    """Train coalescent projections on procedural images, then measure them on five domains they have never seen.

    Everything comes with the package: the embedded backbone, the images (made by code), scikit-learn's digits.
    """

    out: Path = Path("runs/demo")
    """Folder for run/, analysis/, results.json and report.html."""
    full: bool = False
    """Without the cuts that keep it to a few minutes; takes hours."""
    seed: Seed = 0
    """Decides episodes and pseudo-episodes."""


def main(arguments: list[str]) -> int:
    """Parse the options and run."""
    options = parse(Demo, "demo", arguments)
    from cplsr.data.open import open_targets

    console = terminal(soft_wrap=True)
    result = train_demo(options, console)
    targets = open_targets(map(evaluate.split_name, TARGETS))
    if not options.full:
        targets = {name: first_images(domain, TARGET_IMAGES) for name, domain in targets.items()}
    backbone = cplsr.load_backbone("embedded", evaluate.adapters_image_size([str(result.folder)]))
    results = measure(options, backbone, result.folder, targets, console)
    results.write(options.out / "results.json")
    look_inside(options, backbone, result.folder, targets, console)
    close(results, result, options, console)
    return 0


def train_demo(options: Demo, console: Console) -> cplsr.TrainingResult:
    """Train by the demo recipe, or with all that was cut from it (`--full`)."""
    recipe = Train(**read_recipe(Path("demo.toml"), Train))
    settings = TrainingSettings.of(recipe, seed=options.seed)
    if options.full:
        settings = TrainingSettings(lr=recipe.lr, shot=recipe.shot, seed=options.seed)
    backbone = cplsr.load_backbone(recipe.backbone, None if options.full else recipe.image_size)
    base = cplsr.open_domain(recipe.base)
    val = base.validation() if base.validation else None
    if not options.full:
        base, val = first_images(base, BASE_IMAGES), val and first_images(val, BASE_IMAGES)
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
    return cplsr.train(backbone, base, val, out=run, adapter=recipe.adapter, settings=settings)


def first_images(domain: cplsr.Domain, count: int) -> cplsr.Domain:
    """Take the first `count` images of every class."""
    import numpy as np

    chosen = [np.flatnonzero(domain.labels == label)[:count] for label in range(len(domain.classes))]
    return domain.select(np.concatenate(chosen))


def measure(
    options: Demo, backbone: cplsr.Backbone, run: Path, targets: Mapping[str, cplsr.Domain], console: Console
) -> cplsr.Results:
    """Measure the frozen backbone and the adapter on the same episodes of every target."""
    console.print(
        f"[bold]2. Measuring[/] on {len(TARGETS)} domains that training never saw, frozen and with the projections,\n"
        "   on the same episodes." + ("" if options.full else f" Cut for speed: {TARGET_IMAGES} images per class.")
    )
    episodes = FULL_EPISODES if options.full else EPISODES
    results = cplsr.evaluate(
        backbone,
        targets,
        adapters=[(METHOD, run)],
        settings=cplsr.EpisodeSettings(episodes=episodes, seed=options.seed),
        cache=cplsr.EmbeddingCache(),
    )
    evaluate.show_tables(results, console)
    return results


def look_inside(
    options: Demo, backbone: cplsr.Backbone, run: Path, targets: Mapping[str, cplsr.Domain], console: Console
) -> None:
    """Analyze what the projections changed, on the images that were measured, and write it to the folder `analysis`."""
    from cplsr.analysis.findings import write_analysis

    console.print(
        "[bold]3. Looking inside:[/] which heads changed, and what that did to attention and embeddings.\n"
        f"   Cut for speed: attention of {ENTROPY_IMAGES} images of each domain, {PICTURES} pictures, no UMAP."
    )
    analysis = cplsr.analyze(
        backbone,
        run,
        targets,
        settings=AnalysisSettings(
            images_per_class=None, attention_images=1, entropy_images=ENTROPY_IMAGES, seed=options.seed
        ),
        adapter_name=METHOD,
        cache=cplsr.EmbeddingCache(),
    )
    write_analysis(dataclasses.replace(analysis, attention=analysis.attention[:PICTURES]), options.out / "analysis")


def close(results: cplsr.Results, result: cplsr.TrainingResult, options: Demo, console: Console) -> None:
    """Write the page, then print what came of it and what to try next."""
    from cplsr.report.page import write_report

    page = options.out / "report.html"
    made = [options.out / name for name in ("results.json", "run", "analysis")]
    write_report([path for path in made if path.exists()], page, title="cplsr demo", command="cplsr demo")
    console.print("[bold]4. What came of it[/]")
    print_plain(console, outcome(results, result))
    print_plain(console, f"   All of it with charts, in one file: {page}")
    console.print(NEXT)


def outcome(results: cplsr.Results, result: cplsr.TrainingResult) -> str:
    """Say what was gained or lost, and how much of it may be chance."""
    better = [row for row in results.paired if row.estimate.mark == "better"]
    worse = [row for row in results.paired if row.estimate.mark == "worse"]
    mean = sum(row.difference for row in results.paired) / len(results.paired)
    what = "gained" if mean >= 0 else "lost"
    lines = [
        f"   Averaged over targets and shots, the projections {what} {abs(mean):.2f} points over the frozen backbone.",
        f"   Of {len(results.paired)} comparisons {len(better)} are clearly better, {len(worse)} clearly worse, "
        f"{len(results.paired) - len(better) - len(worse)} within chance.",
    ]
    for rows, word in ((better, "Better"), (worse, "Worse")):
        if rows:
            targets = list(dict.fromkeys(row.target for row in rows))
            lines.append(f"   {word} on: {', '.join(targets)}.")
    lines.append(
        f"   On the validation classes: {result.start_accuracy:.2f} % before, {result.best_accuracy:.2f} % with the "
        f"adapter that was kept (episode {result.best_episode})."
    )
    return "\n".join(lines)
