"""`cplsr analyze`: what an adapter changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

import cplsr
from cplsr.cli.evaluate import named_adapter, open_measured
from cplsr.cli.options import parse
from cplsr.cli.terminal import WARNING, print_plain, terminal
from cplsr.declared import between
from cplsr.errors import InputError
from cplsr.records.analysis import Analysis
from cplsr.settings.analysis import AnalysisSettings
from cplsr.settings.backbone import BackboneSettings
from cplsr.settings.embedding import MeasuringSettings


@dataclass(frozen=True, kw_only=True)
class Analyze(AnalysisSettings, MeasuringSettings, BackboneSettings):
    """Look at what an adapter changed: how tight classes lie, the terms of the bound, where attention goes, every C.

    Without --adapter only the frozen backbone is looked at. Everything goes into one folder that `cplsr report` reads.
    """

    target: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Where to look, repeatable: a folder with a folder per class, or any other source, as NAME=SOURCE or SOURCE."""
    adapter: str | None = None
    """What was trained: adapter folder, run folder or hf:user/name, or NAME=…"""
    base: str | None = None
    """The domain it was trained on: looked at too, and the distance of every target from it."""
    out: Path
    """Folder for the results; an older analysis there is replaced."""
    images_per_class: Annotated[int, between(0, 10_000_000)] = 100
    """At most so many images of each class; 0 takes all."""
    attention: Annotated[int, between(0, 10_000)] = 0
    """Of so many images of each domain, a picture of what the class token looks at."""
    attention_images: tyro.conf.Suppress[Annotated[int, between(0, 10_000)]] = 0
    """Here `attention`."""


def main(arguments: list[str]) -> int:
    """Parse the options, measure, write the folder, show tables."""
    options = parse(Analyze, "analyze", arguments)
    analysis = run(options)
    from cplsr.analysis.findings import write_analysis
    from cplsr.report.analysis_section import tables

    write_analysis(analysis, options.out)
    console = terminal()
    for table in tables(analysis):
        console.print(table.to_rich())
    for note in analysis.notes:
        print_plain(console, f"note: {note}", WARNING)
    print_plain(console, f"written to {options.out}")
    return 0


def run(options: Analyze) -> Analysis:
    """Open domains, backbone and adapter, and measure."""
    if not options.target and options.base is None:
        raise InputError("there is nothing to look at: give --target NAME=FOLDER, or --target digits for a try")
    from cplsr.analysis.findings import check_output

    check_output(options.out)
    name, source = (None, None) if options.adapter is None else named_adapter(options.adapter)
    targets, backbone = open_measured(options, [] if source is None else [source])
    base = None if options.base is None else cplsr.open_domain(options.base, strict=options.strict)
    return cplsr.analyze(
        backbone,
        source,
        targets,
        base,
        AnalysisSettings.of(
            options, images_per_class=options.images_per_class or None, attention_images=options.attention
        ),
        adapter_name=name,
        cache=cplsr.EmbeddingCache() if options.cache else None,
        batch_size=options.batch_size,
        workers=options.workers,
        strict=options.strict,
    )
