"""`cplsr train`: train an adapter on a base domain."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import cplsr
from cplsr.cli.options import parse, parse_unchecked, split_recipe
from cplsr.declared import parse_options
from cplsr.errors import InputError
from cplsr.records.public import public_command
from cplsr.settings.backbone import BackboneSettings
from cplsr.settings.embedding import DecodingSettings, ThreadSettings
from cplsr.settings.training import TrainingDomains, TrainingSettings, Trains

OWN_METHOD = "cplsr"


@dataclass(frozen=True, kw_only=True)
class RunRequest(TrainingDomains):
    """What is trained on, and where the run goes; options that stand first."""

    out: Path | None = None
    """The folder RUN."""
    dry_run: bool = False
    """Say what the run would do and about how long it would take, and stop there."""
    resume: bool = False
    """Continue an interrupted run; the same result as without the interruption."""
    snapshots: bool = False
    """Also keep the adapter of every validation, in RUN/snapshots: see --best-on-target of evaluate."""


@dataclass(frozen=True, kw_only=True)
class Train(ThreadSettings, DecodingSettings, TrainingSettings, BackboneSettings, RunRequest):
    """Train an adapter on a base domain: episodes, rotated images as new classes, pseudo-classes in embedding space.

    Settings may come from a recipe, `cplsr train RECIPE.toml [options]`; options on the command line beat it. The
    folder RUN gets adapter/ (the selected one), last/, metrics.jsonl and run.json.
    Suggested where images are read by all blocks and ridge regression, below the backbone's own image size only:
    best_112.toml, which comes with the package (coalescent projections, trained by what is read; half a point more). At
    that size itself nothing is: best_224.toml gained -0.13 points at one shot and +0.03 at five, train nothing there.
    """

    method: str = OWN_METHOD
    """Whose loss: cplsr, or a competitor's (pmf, styleadv, ldp_net, fap, wave_san, afa, ata, lrp, fwt, attn_temp,
    reap, cd_cls), which brings rate, weight decay, sst and pe of its own where none are given."""
    method_options: tuple[str, ...] = ()
    """Options of the method, as name=value: skip=0.4 …"""
    train: Trains = "auto"
    """What learns: the adapter, all weights of the backbone, or whichever the method is known for."""
    adapter: str = "coalescent"
    """Kind: coalescent, attn_scale, soft_prompts, tokens, residual or lora."""
    adapter_options: tuple[str, ...] = ()
    """Options of the kind, as name=value: sharing=shared, constraint=mahalanobis, layers=[8,9,10,11], length=4 …"""

    def parsed_options(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Read the options of the adapter, and those of the method."""
        adapter = parse_options(self.adapter_options, "adapter", "sharing=shared")
        return adapter, parse_options(self.method_options, "method", "skip=0.4")


def main(arguments: list[str]) -> int:
    """Read the recipe, parse the options, train."""
    recipe, rest = split_recipe(Train, arguments)
    options = parse_train(rest, recipe)
    warn_of_another_backbone(options, recipe)
    return run(options, public_command(["cplsr", "train", *arguments]))


def warn_of_another_backbone(options: Train, recipe: Mapping[str, Any]) -> None:
    """Say where the command is for another backbone or image size than the recipe."""
    for name in ("backbone", "image_size"):
        if name in recipe and recipe[name] != getattr(options, name):
            option = "--" + name.replace("_", "-")
            warnings.warn(
                f"the recipe is for {option} {recipe[name]}, the command says {getattr(options, name)}, which is used: "
                "what the recipe was tuned for may not fit",
                stacklevel=3,
            )


def parse_train(arguments: Sequence[str], recipe: Mapping[str, Any]) -> Train:
    """Parse the options; a method other than our own brings settings that hold where neither source gives any."""
    given, brought = parse_unchecked(Train, "train", arguments, recipe), {}
    if given.method != OWN_METHOD:  # the others need torch, for which nobody waits who asks for help
        from cplsr.methods.registry import METHODS, starting_settings

        brought = starting_settings(METHODS.find(given.method), given.train)
    return parse(Train, "train", arguments, {**brought, **recipe})


def run(options: Train, command: str) -> int:
    """Train, print the accuracies, and give the exit code; `command` is what was typed, which is kept with the run."""
    if not options.base:
        raise InputError("there is no base domain to train on: give --base FOLDER, or --base procedural:base for a try")
    if options.out is None and not options.dry_run:
        raise InputError("there is no folder for the run: give --out RUN")
    first = os.environ.get("RANK", "0") == "0"  # of several processes one speaks
    level = logging.INFO if first else logging.ERROR
    logging.basicConfig(level=level, format="%(message)s", stream=sys.stderr, force=True)
    if not first:
        warnings.simplefilter("ignore")
    import torch

    from cplsr.adapters.full import Full
    from cplsr.backbones.load import open_backbone
    from cplsr.methods.registry import METHODS, learning_kind, make_objective, trained_kind

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    settings = TrainingSettings.of(options)
    method = METHODS.find(options.method)
    adapter_options, method_options = options.parsed_options()
    objective = make_objective(method, method_options, settings)
    kind, adapter_options = trained_kind(method, options.train, options.adapter, adapter_options)
    if learning_kind(kind, adapter_options) == Full.kind:
        logging.getLogger(__name__).info("%s: all weights of the backbone are trained", method.name)
    backbone, base = open_backbone(options), cplsr.open_domain(options.base)
    val = None if options.val is None else cplsr.open_domain(options.val)
    learning: dict[str, Any] = {"adapter": kind, "adapter_options": adapter_options}
    learning |= {"settings": settings, "objective": objective}
    if options.dry_run:
        from cplsr.training.forecast import forecast
        from cplsr.training.loop import training_job

        forecasted = forecast(training_job(backbone, base, val, **learning))
        if first:
            print(*forecasted, sep="\n")
        return 0
    result = cplsr.train(
        backbone,
        base,
        val,
        out=cast("Path", options.out),
        resume=options.resume,
        snapshots=options.snapshots,
        workers=options.workers,
        command=command,
        **learning,
    )
    if first:
        _print_result(result, options.select)
    return 0


def _print_result(result: cplsr.TrainingResult, select: str) -> None:
    if result.already_finished:
        print(f"{result.folder} is finished already; nothing was done.")
    print(
        f"validation accuracy {result.start_accuracy:.2f} % before, {result.last_accuracy:.2f} % at the end, "
        f"{result.best_accuracy:.2f} % at its best (episode {result.best_episode}); {result.seconds:.0f} s"
    )
    print(f"the {select} adapter is in {result.folder / 'adapter'}")
