"""`cplsr train`: train an adapter on a base domain."""

from __future__ import annotations

import json
import logging
import os
import shlex
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from cplsr.cli.backbone_arguments import BackboneArguments
from cplsr.cli.recipes import read_recipe
from cplsr.errors import InputError

if TYPE_CHECKING:
    from cplsr.training.loop import TrainingResult

OWN_METHOD = "cplsr"


@dataclass(frozen=True, kw_only=True)
class Train(BackboneArguments):
    """Train an adapter on a base domain: episodes, rotated images as new classes, pseudo-classes in embedding space.

    Settings may come from a recipe, `cplsr train RECIPE.toml [options]`; options on the command line beat it. The
    folder RUN gets adapter/ (the selected one), last/, metrics.jsonl and run.json.
    """

    base: str = ""
    """Base domain: a folder with a folder per class, procedural:base, mini-imagenet:DIR, or any other source."""
    val: str | None = None
    """Validation classes. Default: the base's own split, else 20 % of its classes."""
    out: Path | None = None
    """The folder RUN."""
    resume: bool = False
    """Continue an interrupted run; the same result as without the interruption."""

    method: str = OWN_METHOD
    """Whose loss: cplsr, or a competitor's (pmf, styleadv, ldp_net, fap, wave_san, afa, ata, lrp, fwt), which brings
    rate, weight decay, sst and pe of its own where none are given."""
    method_options: tuple[str, ...] = ()
    """Options of the method, as name=value: skip=0.4 …"""
    train: Literal["auto", "adapter", "backbone"] = "auto"
    """What learns: the adapter, all weights of the backbone, or whichever the method is known for."""
    adapter: str = "coalescent"
    """Kind: coalescent, attn_scale, soft_prompts, residual or lora."""
    adapter_options: tuple[str, ...] = ()
    """Options of the kind, as name=value: sharing=shared, constraint=mahalanobis, layers=[8,9,10,11], length=4 …"""

    way: int = 5
    """Classes in an episode (N)."""
    shot: int = 5
    """Support images of each class (K)."""
    query: int = 15
    """Query images of each class (K_q)."""
    episodes: int = 1000
    """Base episodes."""
    episodes_per_step: int = 1
    """Base episodes per process whose gradients are averaged."""
    lr: float = 1e-5
    """Learning rate of AdamW."""
    weight_decay: float = 0.0
    """Weight decay of AdamW."""
    temperature: float = 20.0
    """Factor of the cosines."""
    prototype: Literal["mean", "mean_of_normalized"] = "mean"
    """Prototype of a class: mean of the raw embeddings, or of the embeddings scaled to length one."""
    symmetry: float = 0.0
    """Factor of the penalty on C − Cᵀ (free coalescent projections only)."""
    sst: bool = True
    """Self-supervised transformations: every image turned four ways, every turn a class of its own."""
    pe: bool = True
    """Pseudo-embeddings: join every episode with one of pseudo-classes."""
    select: Literal["best", "last"] = "best"
    """Which adapter goes to RUN/adapter: the best on the validation episodes, or the last."""
    validation_episodes: int = 600
    """Fixed validation episodes, a multiple of 4."""
    validate_every: int | None = None
    """Base episodes between validations; 0 only at start and end. Default: a tenth of the run, at most 100."""

    statistics: Literal["raw", "normalized"] = "raw"
    """Gaussians of raw embeddings, or of embeddings scaled to length one."""
    statistics_images: int | None = None
    """At most this many images of each class in the statistics."""
    shrinkage: Literal["none", "ledoit_wolf"] = "none"
    """Shrinkage of the covariances."""
    ridge: float = 1e-3
    """Added to the diagonal of the covariances (ε)."""
    candidates: int = 100
    """Candidate pseudo-classes per pseudo-episode (N_C)."""
    survivors: int = 2
    """Times `way` candidates pass the novel-novel criterion (N_0)."""
    novel_similarity: Literal["dot", "cosine"] = "dot"
    """Similarity in the novel-novel criterion."""
    pseudo_episodes: int = 100
    """Pseudo-episodes drawn beforehand and used again and again (E_P)."""
    online: bool = False
    """A fresh pseudo-episode every step instead."""

    checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, more time."""
    compile: bool = False
    """Compile the backbone with torch.compile; pays on GPUs."""
    threads: int | None = None
    """Threads of torch. Default: all cores. A resumed run repeats the same numbers only with the same count."""
    workers: int | None = None
    """Processes that decode images. Default: up to 2."""
    seed: int = 0
    """Decides episodes, pseudo-episodes, held-out classes and start values."""


def main(arguments: list[str]) -> int:
    """Read the recipe, parse the options, train."""
    recipe = arguments[0] if arguments and not arguments[0].startswith("-") else None
    said, words = ({}, arguments) if recipe is None else (read_recipe(Path(recipe), Train), arguments[1:])
    default = Train(**{**method_settings(said, words), **said})
    options = tyro.cli(Annotated[Train, tyro.conf.arg(name="")], default=default, args=words, prog="cplsr train")
    return run(options, shlex.join(["cplsr", "train", *arguments]))


def method_settings(said: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Settings that the method brings, by the recipe and the words of the command line; CPLSR's own brings none."""
    name = last_given("--method", words) or said.get("method", OWN_METHOD)
    if name == OWN_METHOD:  # the others need torch, for which nobody waits who asks for help
        return {}
    from cplsr.methods.registry import find_method, starting_settings

    return starting_settings(find_method(name), last_given("--train", words) or said.get("train", "auto"))


def last_given(flag: str, words: Sequence[str]) -> str | None:
    """The value of an option among unparsed words, given as `--name value` or `--name=value`."""
    found = None
    for word, following in pairwise([*words, ""]):
        if word == flag:
            found = following
        elif word.startswith(f"{flag}="):
            found = word.removeprefix(f"{flag}=")
    return found or None


def run(options: Train, command: str) -> int:
    """Train, and say what came of it; `command` is kept with the run."""
    if not options.base:
        raise InputError("there is no base domain to train on: give --base FOLDER, or --base procedural:base for a try")
    if options.out is None:
        raise InputError("there is no folder for the run: give --out RUN")
    first = os.environ.get("RANK", "0") == "0"  # of several processes one speaks
    level = logging.INFO if first else logging.ERROR
    logging.basicConfig(level=level, format="%(message)s", stream=sys.stderr, force=True)
    if not first:
        warnings.simplefilter("ignore")
    import torch

    from cplsr.data.open import open_domain
    from cplsr.methods.registry import FULL, find_method, make_objective, trained_kind
    from cplsr.training.loop import train
    from cplsr.training.settings import TrainingSettings

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    settings = TrainingSettings.of(options)
    method = find_method(options.method)
    objective = make_objective(method, parse_options(options.method_options, "method", "skip=0.4"), settings)
    adapter_options = parse_adapter_options(options.adapter_options)
    kind, adapter_options = trained_kind(method, options.train, options.adapter, adapter_options)
    if kind == FULL:
        logging.getLogger(__name__).info("%s: all weights of the backbone are trained", method.name)
    result = train(
        options.load(),
        open_domain(options.base),
        None if options.val is None else open_domain(options.val),
        out=options.out,
        adapter=kind,
        adapter_options=adapter_options,
        settings=settings,
        objective=objective,
        resume=options.resume,
        workers=options.workers,
        command=command,
    )
    if first:
        _tell(result, options.select)
    return 0


def _tell(result: TrainingResult, select: str) -> None:
    if result.already_finished:
        print(f"{result.folder} is finished already; nothing was done.")
    print(
        f"validation accuracy {result.start_accuracy:.2f} % before, {result.last_accuracy:.2f} % at the end, "
        f"{result.best_accuracy:.2f} % at its best (episode {result.best_episode}); {result.seconds:.0f} s"
    )
    print(f"the {select} adapter is in {result.folder / 'adapter'}")


def parse_adapter_options(texts: tuple[str, ...]) -> dict[str, Any]:
    """Options of an adapter."""
    return parse_options(texts, "adapter", "sharing=shared")


def parse_options(texts: tuple[str, ...], what: str, example: str) -> dict[str, Any]:
    """`name=value` pairs; a value is a number, a list or true/false where it reads as one, else a word."""
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise InputError(f"{what} option {text!r} is incomplete: give name=value, for example {example}")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options
