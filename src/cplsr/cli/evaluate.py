"""`cplsr evaluate`: accuracy of a frozen backbone and of adapters on target domains."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

import cplsr
from cplsr.cli.options import parse
from cplsr.cli.terminal import WARNING, print_plain, print_table, terminal
from cplsr.declared import Declared, parse_options
from cplsr.errors import InputError
from cplsr.files import check_writable
from cplsr.records.public import public_command
from cplsr.records.results import best_and_last
from cplsr.settings.backbone import BackboneSettings
from cplsr.settings.embedding import MeasuringSettings
from cplsr.settings.episodes import EpisodeSettings
from cplsr.settings.numbers import DrawnEpisodes

if TYPE_CHECKING:
    from rich.console import Console

    from cplsr.cli.analyze import Analyze
    from cplsr.evaluation.adapting import AdaptationRequest


@dataclass(frozen=True, kw_only=True)
class MeasuringRequest(Declared):
    """What is measured, and where; options that stand first."""

    target: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Where to measure, repeatable: a folder with a folder per class, or any other source, as NAME=SOURCE or SOURCE."""
    adapter: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """What to measure beside the frozen backbone, repeatable: adapter folder, run folder or hf:user/name, or NAME=…"""
    head: tuple[str, ...] = ("prototypes",)
    """How embeddings answer, each a row: prototypes, ridge, lda, logistic, knn, auto; and centered, em, bd_cspn,
    alpha_tim, which see the queries of an episode together; with options as in ridge:penalty=1 or
    em:gamma=1,iterations=5."""
    out: Path | None = None
    """Also write the results to this file, as json."""


@dataclass(frozen=True, kw_only=True)
class Evaluate(MeasuringSettings, EpisodeSettings, BackboneSettings, MeasuringRequest):
    """Measure N-way K-shot accuracy on target domains: the frozen backbone, and adapters beside it.

    Every image is embedded once and kept in the cache (see `cplsr cache`); all methods see the same episodes.
    """

    match_shot: bool = False
    """Measure each adapter only at the shot it was trained for."""
    method: str | None = None
    """Also let this method (pmf) adapt every model on the support set of each episode; its rows are called NAME+pmf."""
    method_options: tuple[str, ...] = ()
    """Options of the method, as name=value: steps=100 …"""
    tune_on_support: bool = False
    """Also tune the class token of every model on the support set of each episode; its rows are called NAME+tuned."""
    tune_options: tuple[str, ...] = ()
    """Options of that, as name=value: tokens=registers, steps=100, one_shot=true …"""
    method_episodes: DrawnEpisodes = 40
    """Episodes of each target and shot for --method or --tune-on-support, the first ones: adapting takes long."""
    best_on_target: bool = False
    """Also measure the snapshots of every run given as --adapter (trained with --snapshots), and note how much better
    the best epoch chosen on each target is than the last: not allowed, but often published."""


def main(arguments: list[str]) -> int:
    """Parse the options, measure, show a table."""
    options = parse(Evaluate, "evaluate", arguments)
    if options.out is not None:
        check_writable(options.out)
    results = run(options)
    console = terminal()
    show_tables(results, console)
    for flag in results.flags:
        print_plain(console, f"note: {flag}", WARNING)
    if options.out is not None:
        command = public_command(["cplsr", "evaluate", *arguments])
        replace(results, settings={**results.settings, "command": command}).write(options.out)
        print_plain(console, f"written to {options.out}")
    return 0


def run(options: Evaluate) -> cplsr.Results:
    """Open targets, backbone and adapters, and measure."""
    if not options.target:
        raise InputError("there is no target to evaluate on: give --target NAME=FOLDER, or --target digits for a try")
    named = [named_adapter(text) for text in options.adapter]
    request = request_of(options)
    targets, backbone = open_measured(options, [source for _, source in named])
    if request is not None and backbone.precision == "bf16":
        raise InputError(f"+{request.method} trains weights, for which bf16 is too coarse: give --precision fp32")
    settings = EpisodeSettings.of(options)
    shared: dict[str, Any] = {
        "adapters": named,
        "match_shot": options.match_shot,
        "cache": cplsr.EmbeddingCache() if options.cache else None,
        "batch_size": options.batch_size,
        "workers": options.workers,
    }
    results = cplsr.evaluate(backbone, targets, heads=options.head, settings=settings, strict=options.strict, **shared)
    if options.best_on_target:
        results = replace(results, flags=(*results.flags, *snapshot_notes(backbone, targets, settings, shared)))
    if request is None:
        return results
    from cplsr.evaluation.adapting import measure_adaptation

    adapted = [measure_adaptation(backbone, targets, request, settings=each, **shared) for each in settings.by_queries]
    if results.dirichlet is not None:
        results = replace(results, dirichlet=adapted[1].behind(results.dirichlet))
    return adapted[0].behind(results)


def open_measured(options: Evaluate | Analyze, adapters: list[str]) -> tuple[dict[str, cplsr.Domain], cplsr.Backbone]:
    """Open the targets, and the backbone at the image size of the adapters where no other was given."""
    from cplsr.backbones.load import open_backbone
    from cplsr.data.open import open_targets

    image_size = options.image_size or adapters_image_size(adapters)
    targets = open_targets(map(split_name, options.target), strict=options.strict)
    return targets, open_backbone(options, image_size)


def snapshot_notes(
    backbone: cplsr.Backbone, targets: dict[str, cplsr.Domain], settings: EpisodeSettings, shared: dict[str, Any]
) -> list[str]:
    """Say for every run and target what choosing the epoch there would have been worth."""
    from cplsr.evaluation.evaluate import measure_snapshots

    runs = shared["adapters"]
    if not runs:
        raise InputError("--best-on-target compares the snapshots of runs, but there are none: give --adapter RUN")
    options = {**shared, "settings": settings.by_queries[0]}
    del options["adapters"]
    return [
        f"{name} on {target}, {shot}-shot: last epoch {last.accuracy:.2f} %, best epoch chosen on the target (not "
        f"allowed) {best.accuracy:.2f} %, episode {best.episode}"
        for name, source in runs
        for (target, shot), (best, last) in best_and_last(
            measure_snapshots(backbone, targets, source, **options)
        ).items()
    ]


def request_of(options: Evaluate) -> AdaptationRequest | None:
    """What is to adapt on the support sets, one thing at most; `None` where nothing is."""
    if options.method is None and not options.tune_on_support:
        if options.tune_options:
            raise InputError("--tune-options were given, but nothing is tuned: give --tune-on-support as well")
        return None
    from cplsr.evaluation.adapting import AdaptationRequest

    if options.method is None:
        from cplsr.methods.support_tuning import TUNED, make_tuning

        tuning = make_tuning(parse_options(options.tune_options, "tuning", "steps=100"))
        return AdaptationRequest(TUNED, tuning, options.method_episodes)
    if options.tune_on_support:
        raise InputError(
            f"--method {options.method} and --tune-on-support both adapt on the support set: give one, then the other"
        )
    from cplsr.methods.registry import METHODS, make_adaptation

    method = METHODS.find(options.method)
    adaptation = make_adaptation(method, parse_options(options.method_options, "method", "steps=100"))
    if adaptation is None:
        able = [other for other in METHODS if METHODS.find(other).adaptation is not None]
        raise InputError(
            f"the method {options.method!r} only makes prototypes of a support set, so there is nothing to add: "
            f"measure what it trained with --adapter RUN, or give --method {' or '.join(able)}, or --tune-on-support"
        )
    return AdaptationRequest(options.method, adaptation, options.method_episodes)


def split_name(text: str) -> tuple[str | None, str]:
    """Split `NAME=SOURCE` in two; without a name, or where the whole is a path that exists, the name is `None`."""
    name, equals, source = text.partition("=")
    if not equals or "/" in name or Path(text).exists():
        return None, text
    if not name or not source:
        raise InputError(f"{text!r} is incomplete: give NAME=SOURCE, with something on both sides")
    return name, source


def named_adapter(text: str) -> tuple[str, str]:
    """Split `NAME=SOURCE` of an adapter; without a name its path gives one."""
    name, source = split_name(text)
    return name or default_adapter_name(source), source


def default_adapter_name(source: str) -> str:
    """Name an adapter by its path: the last part, or the one before where that is just `adapter`."""
    if source.startswith("hf:"):
        return source.removeprefix("hf:")
    path = Path(source).expanduser()
    if path.exists():
        path = path.resolve()
    return path.parent.name if path.name == "adapter" and path.parent.name else path.name


def adapters_image_size(sources: list[str]) -> int | None:
    """Read the image size that all adapters were trained at; `None` without adapters."""
    if not sources:
        return None
    from cplsr.adapters.store import read_adapter_info

    sizes = {source: read_adapter_info(source).backbone["image_size"] for source in sources}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{source}: {size}" for source, size in sizes.items())
        raise InputError(f"the adapters were trained at different image sizes ({listed}): give one with --image-size")
    return next(iter(sizes.values()))


def show_tables(results: cplsr.Results, console: Console) -> None:
    """Print accuracies, paired differences and weak points; on a narrow screen methods are columns."""
    from cplsr.evaluation.published import benchmark_targets
    from cplsr.report.accuracy_tables import paired_table, whole_accuracy_table

    print_table(console, whole_accuracy_table(results), [whole_accuracy_table(results, methods_down=False)])
    if results.paired:
        print_table(console, paired_table(results))
    for line in weak_points(results):
        print_plain(console, line)
    if benchmark_targets(results):
        print_plain(console, "the paper's figures stand beside these in: cplsr published --beside RESULTS.json")


def weak_points(results: cplsr.Results) -> list[str]:
    """Say for each method how far its confidences are off, and which class it recognizes least on each target."""
    lines = []
    for method in results.methods:
        errors = [row.ece for row in results.calibration if row.method == method]
        shots = [row.shot for row in results.confusion if row.method == method]
        parts = [f"mean ECE {sum(errors) / len(errors):.3f}"] if errors else []
        if shots:
            shot = max(shots)
            rows = [results.confusion_row(method, target, shot) for target in results.targets]
            hardest = [f"{row.target} {row.hardest[0]} {row.hardest[1]:.0%}" for row in rows if row is not None]
            parts.append(f"lowest recall (shot {shot}): {', '.join(hardest)}")
        if parts:
            lines.append(f"{method}: {'; '.join(parts)}")
    return lines
