"""`cplsr ablate`: many trainings, one table."""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from cplsr.cli.evaluate import split_name
from cplsr.cli.options import parse, split_recipe
from cplsr.cli.terminal import print_plain, print_table, terminal
from cplsr.cli.train import Train, warn_of_another_backbone
from cplsr.declared import kinds_of
from cplsr.errors import InputError
from cplsr.files import only_writer, write_file
from cplsr.records.public import public_command
from cplsr.report.ablation_table import table_of
from cplsr.report.tables import Table, table
from cplsr.settings.ablation import RaySettings, SharedSettings
from cplsr.settings.numbers import BaseEpisodes, Images, LearningRate, Seed
from cplsr.settings.training import TrainingSettings

if TYPE_CHECKING:
    from cplsr.ablation.engines import Outcome
    from cplsr.ablation.plan import AblationRow, Rates, Run
    from cplsr.ablation.run import Job
    from cplsr.ablation.workspace import Workspace

EXIT_FAILED_RUNS = 1


@dataclass(frozen=True, kw_only=True)
class Ablate(RaySettings, Train, SharedSettings):
    """Train and measure every row of a recipe at every shot and seed, and make one table of it.

    `cplsr ablate RECIPE.toml --out DIR [options]`. The recipe holds common settings, named like the options below, and
    for every row a table [rows."NAME"] with what differs: adapter, adapter_options, method, method_options, train, pe,
    sst, lr, any training setting. Options on the command line beat the common settings, not those of a row or of its
    method. What is finished in DIR is not done again, and what was interrupted is continued.
    """

    rows: tyro.conf.Suppress[dict] = dataclasses.field(default_factory=dict)
    """Rows of the recipe."""
    shot: tyro.conf.Suppress[Images | None] = None  # type: ignore[assignment]
    """Here `shots`."""
    seed: tyro.conf.Suppress[Seed | None] = None  # type: ignore[assignment]
    """Here `seeds`."""
    resume: tyro.conf.Suppress[bool] = True
    """Always."""
    snapshots: tyro.conf.Suppress[bool] = False
    """Here `best_on_target`."""
    dry_run: bool = False
    """The same as --list."""

    out: Path | None = None
    """The folder DIR: a json file of every run, table.md, table.tex, table.csv, runs/ with the trainings."""
    target: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Where to measure, repeatable, as NAME=SOURCE or SOURCE; one here replaces all of the recipe."""
    seeds: tuple[Seed, ...] = (0,)
    """Seeds of the trainings; the evaluation episodes of a run are drawn by its seed too."""

    only: tuple[str, ...] = ()
    """Run these rows only."""
    list_runs: Annotated[bool, tyro.conf.arg(name="list")] = False
    """Show the runs and which are finished, and do nothing."""

    rates: Literal["shared", "own", "both"] | None = None
    """Learning rate: shared by all rows, a row's own (tuned, or lr_own) if it has one, or both. Default: shared, with
    --tune own."""
    lr_own: LearningRate | None = None
    """Own rate of all rows, instead of those of the recipe and the tuned ones."""
    tune: bool = False
    """First choose the own rate of every row by validation accuracy, from short trainings; targets are not touched."""
    tune_rates: tuple[LearningRate, ...] = (1e-5, 1e-4, 3e-4, 1e-3)
    """Rates to choose from."""
    tune_episodes: BaseEpisodes = 30
    """Base episodes of the short trainings."""

    engine: Literal["local", "ray"] = "local"
    """One run after the other, or all as tasks of ray."""


NOT_REPEATED = {"shots", *Ablate.__annotations__, *kinds_of(RaySettings)} - {"target"}
"""Options that say which runs and where, not how one of them is done."""


def main(arguments: list[str]) -> int:
    """Read the recipe, parse the options, run."""
    recipe, rest = split_recipe(Ablate, arguments)
    for name in ("shot", "seed"):
        if name in recipe:
            raise InputError(
                f"the recipe sets {name}, but an ablation has several: write {name}s = [1, 5], for example"
            )
    options = parse(Ablate, "ablate", rest, recipe)
    warn_of_another_backbone(options, recipe)
    earlier = recipe.get("target", ())
    listing = options.list_runs or options.dry_run
    options = dataclasses.replace(options, target=options.target[len(earlier) :] or earlier, list_runs=listing)
    if not options.rows:
        raise InputError("there are no rows to run: give a recipe that has some, like recipes/ablation_mini.toml")
    if options.out is None:
        raise InputError("there is no folder for the runs: give --out DIR")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr, force=True)
    with nullcontext() if options.list_runs else only_writer(options.out):
        return run(options, [arguments[0], *repeated(options, recipe)], options.out)


def run(options: Ablate, again: list[str], out: Path) -> int:
    """Tune if asked to, do what is not done, make the table, and give the exit code.

    `again` are arguments that give the same recipe and settings once more, for the commands in the records.
    """
    from cplsr.ablation.plan import Candidate, choose_runs, read_rows
    from cplsr.ablation.run import Job, read_records, state_of
    from cplsr.ablation.workspace import Setup, Workspace

    adapter_options, method_options = options.parsed_options()
    common = Candidate(
        adapter=options.adapter,
        adapter_options=adapter_options,
        method=options.method,
        method_options=method_options,
    )
    rows = read_rows(options.rows, common, options.train)
    workspace = Workspace(Setup.of(options, targets=tuple(map(split_name, options.target))))
    if not options.list_runs:
        check(options, rows)
    failures = tune(options, rows, workspace, out) if options.tune and not options.list_runs else []
    runs = plan(options, rows, out)
    jobs = [Job.of(run, workspace.setup, out, command_of(run, again, out)) for run in choose_runs(runs, options.only)]
    if options.list_runs:
        show(list_of(jobs))
        return 0
    waiting = [job for job in jobs if state_of(job) != "finished"]
    if done := len(jobs) - len(waiting):
        print(f"{done} of {len(jobs)} runs are finished already", file=sys.stderr)
    names = list(dict.fromkeys(run.row for run in runs))

    def table_here(shots: Sequence[int] | None = None) -> Table:
        return table_of(read_records(out, names), rows=names, failures=failures, shots=shots)

    for outcome in outcomes(options, workspace, waiting):
        failures += failures_of([outcome])
        write_table(table_here(), out)
    whole = table_here()
    write_table(whole, out)
    show(whole, [table_here([shot]) for shot in options.shots])
    print(f"written to {out / 'table.md'}, table.tex and table.csv")
    return EXIT_FAILED_RUNS if failures else 0


def check(options: Ablate, rows: Sequence[AblationRow]) -> None:
    """Raise `InputError` where the targets or the base domain are missing."""
    if not options.target:
        raise InputError("there is no target to measure on: give --target NAME=FOLDER, or --target digits for a try")
    if not options.base and any(row.adapter != "frozen" for row in rows):
        raise InputError("there is no base domain to train on: give --base FOLDER, or --base procedural:base for a try")


def plan(options: Ablate, rows: Sequence[AblationRow], out: Path, rates: Rates | None = None) -> list[Run]:
    """List all runs of the recipe at the shots and seeds asked for."""
    from cplsr.ablation.plan import plan_runs
    from cplsr.ablation.tuning import read_rates

    common = TrainingSettings.of(options, shot=TrainingSettings.shot, seed=TrainingSettings.seed)
    own = read_rates(out) if options.lr_own is None else {row.name: options.lr_own for row in rows}
    rates = rates or options.rates or ("own" if options.tune else "shared")
    return plan_runs(rows, common, shots=options.shots, seeds=options.seeds, rates=rates, own_rates=own)


def tune(options: Ablate, rows: Sequence[AblationRow], workspace: Workspace, out: Path) -> list[tuple[str, str]]:
    """Choose the rows' own rates and keep them in DIR/tuning.json; rows without one give (run, reason) of failures."""
    from cplsr.ablation.plan import OWN_RATE, choose_runs
    from cplsr.ablation.tuning import choose_rates, tuning_jobs

    only = [name.removesuffix(OWN_RATE) for name in options.only]
    runs = choose_runs(plan(options, rows, out, rates="shared"), only)
    rates, episodes, seed = options.tune_rates, options.tune_episodes, options.seeds[0]
    jobs = tuning_jobs(runs, workspace.setup, out, rates=rates, episodes=episodes, seed=seed)
    ended = list(outcomes(options, workspace, jobs))
    chosen = choose_rates(jobs, out)
    for row, rate in chosen.items():
        print(f"own rate of {row}: {rate:g}", file=sys.stderr)
    return failures_of(outcome for outcome in ended if outcome.job.run.row not in chosen)


def outcomes(options: Ablate, workspace: Workspace, jobs: Sequence[Job]) -> Iterator[Outcome]:
    """Do the jobs by the engine asked for."""
    from cplsr.ablation.engines import run_local, run_on_ray
    from cplsr.progress import progress_bar

    if options.engine == "local":
        yield from run_local(jobs, workspace)
        return
    with progress_bar(len(jobs), "ablation", unit="run") as bar:
        for outcome in run_on_ray(jobs, options):
            bar.update(1)
            logging.getLogger(__name__).info("%s: %s", outcome.job.run.title, outcome.error or "done")
            yield outcome


def failures_of(ended: Iterable[Outcome]) -> list[tuple[str, str]]:
    """List (run, reason) of the jobs that failed, and print them at once."""
    failures = [(outcome.job.run.title, outcome.error) for outcome in ended if outcome.error is not None]
    for title, reason in failures:
        print(f"cplsr: {title} failed: {reason}", file=sys.stderr)
    return failures


def repeated(options: Ablate, recipe: Mapping[str, Any]) -> list[str]:
    """Make the arguments that turn a recipe's settings into `options`, but for those that choose runs."""
    arguments: list[str] = []
    for name in [name for name in kinds_of(Ablate) if name not in NOT_REPEATED]:
        value = getattr(options, name)
        if value == recipe.get(name, getattr(Ablate, name)):
            continue
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            arguments.append(f"--{flag}" if value else f"--no-{flag}")
        elif name == "target":
            arguments += [part for text in value for part in ("--target", text)]
        else:
            arguments += [f"--{flag}", *map(str, value if isinstance(value, tuple) else (value,))]
    return arguments


def command_of(run: Run, again: Sequence[str], out: Path) -> str:
    """Make the one command that repeats a run, in a folder beside the old one; `again` as for `run`."""
    from cplsr.ablation.plan import OWN_RATE

    chosen = ["--only", run.row, "--shots", str(run.settings.shot), "--seeds", str(run.settings.seed)]
    if run.row.endswith(OWN_RATE):
        chosen += ["--rates", "own", "--lr-own", repr(run.settings.lr)]
    return public_command(["cplsr", "ablate", *again, *chosen, "--out", f"{out}-again"])


def list_of(jobs: Sequence[Job]) -> Table:
    """Make a table of all runs and how far they are."""
    from cplsr.ablation.run import state_of

    def state(job: Job) -> str:
        try:
            return state_of(job)
        except InputError:
            return "done with other settings"

    lines = [
        (job.run.row, state(job), str(settings.shot), str(settings.seed), "" if job.run.frozen else f"{settings.lr:g}")
        for job in jobs
        for settings in (job.run.settings,)
    ]
    return table(f"{len(jobs)} runs", ("row", "state", "shot", "seed", "rate"), lines, left=2)


def write_table(whole: Table, out: Path) -> None:
    """Write a table as Markdown, LaTeX and CSV."""
    texts = {"md": whole.to_markdown(), "tex": whole.to_latex() + f"% {whole.caption}\n", "csv": whole.to_csv()}
    for suffix, text in texts.items():
        write_file(out / f"table.{suffix}", text)


def show(whole: Table, narrower: Sequence[Table] = ()) -> None:
    """Print a table, or narrower ones, and below it the caption at the width of the terminal."""
    console = terminal()
    table, *parts = (dataclasses.replace(each, caption="") for each in (whole, *narrower))
    print_table(console, table, parts)
    if whole.caption:
        print_plain(console, whole.caption)
