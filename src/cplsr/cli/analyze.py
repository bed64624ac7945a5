"""`cplsr analyze`: what an adapter changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from cplsr.cli.evaluate import adapters_image_size, default_adapter_name, split_name
from cplsr.cli.options import parse
from cplsr.cli.terminal import WARNING, print_plain
from cplsr.declared import between
from cplsr.errors import InputError
from cplsr.settings.backbone import BackboneSettings
from cplsr.settings.embedding import MeasuringSettings
from cplsr.settings.numbers import Images, Seed, Way

if TYPE_CHECKING:
    from cplsr.records.analysis import Analysis, DomainAnalysis, Measures
    from cplsr.report.tables import Table


@dataclass(frozen=True, kw_only=True)
class Analyze(MeasuringSettings, BackboneSettings):
    """Look at what an adapter changed: how tight classes lie, the terms of the bound, where attention goes, every C.

    Without --adapter only the frozen backbone is looked at. Everything goes into one folder that `cplsr report` reads.
    """

    target: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Where to look, repeatable: a folder with a folder per class, or any other source, as NAME=SOURCE or SOURCE."""
    adapter: str | None = None
    """What was trained: adapter folder, run folder or hf:user/name, or NAME=…"""
    base: str | None = None
    """The domain it was trained on: looked at too, and the distance of every target from it."""
    out: Path
    """Folder for the results; an older analysis there is replaced."""
    umap: bool = False
    """Also embeddings in two dimensions before and after, as in the paper (needs cplsr[viz])."""
    attention: Annotated[int, between(0, 10_000)] = 0
    """Of so many images of each domain, a picture of what the class token looks at."""
    cost: bool = False
    """Also what adapters cost at several image sizes, timed on this machine (a minute or two)."""
    images_per_class: Annotated[int, between(0, 10_000_000)] = 100
    """At most so many images of each class; 0 takes all."""
    shots: tuple[Images, ...] = (1, 5)
    """Support images of each class, in the terms of the bound."""
    way: Way = 5
    """Classes in an episode, in the terms of the bound."""
    seed: Seed = 0
    """Which images are drawn."""


def main(arguments: list[str]) -> int:
    """Parse the options, measure, write the folder, show tables."""
    from rich.console import Console

    options = parse(Analyze, "analyze", arguments)
    analysis = run(options)
    from cplsr.analysis.findings import write_analysis

    write_analysis(analysis, options.out)
    console = Console()
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
    from cplsr.analysis.analyze import analyze
    from cplsr.analysis.findings import check_output
    from cplsr.backbones.load import open_backbone
    from cplsr.data.open import open_domain, open_targets
    from cplsr.evaluation.cache import EmbeddingCache
    from cplsr.settings.analysis import AnalysisSettings

    check_output(options.out)
    name, source = (None, None) if options.adapter is None else split_name(options.adapter)
    image_size = options.image_size or adapters_image_size([] if source is None else [source])
    targets = open_targets(map(split_name, options.target), strict=options.strict)
    base = None if options.base is None else open_domain(options.base, strict=options.strict)
    return analyze(
        open_backbone(options, image_size),
        source,
        targets,
        base,
        AnalysisSettings(
            images_per_class=options.images_per_class or None,
            shots=options.shots,
            way=options.way,
            seed=options.seed,
            umap=options.umap,
            attention_images=options.attention,
            cost=options.cost,
        ),
        adapter_name=name or (None if source is None else default_adapter_name(source)),
        cache=EmbeddingCache() if options.cache else None,
        batch_size=options.batch_size,
        workers=options.workers,
        strict=options.strict,
    )


def tables(analysis: Analysis) -> Iterator[Table]:
    """Make the tables of what was measured; only those that have rows."""
    from cplsr.report.analysis_section import cost_table, heads_table

    yield domain_table(analysis)
    yield bound_table(analysis)
    if analysis.heads:
        yield heads_table(analysis.heads)
    if analysis.cost:
        yield cost_table(analysis.cost)


def domain_table(analysis: Analysis) -> Table:
    """Make a table with a row for each domain: spread of classes, distance from the base domain, attention entropy."""
    from cplsr.report.tables import Cell, Table

    def entropy(measures: Measures) -> float:
        heads = [value for layer in measures.attention_entropy for value in layer]
        return sum(heads) / len(heads)

    rows = [
        (
            Cell(name),
            Cell(f"{domain.images:,}"),
            Cell(_before_after(domain, lambda m: m.within_between)),
            Cell(_before_after(domain, lambda m: m.proxy_distance)),
            Cell(_before_after(domain, entropy)),
            *(() if domain.drift is None else (Cell(f"{domain.drift.cosine:.4g}"), Cell(f"{domain.drift.shift:.4g}"))),
        )
        for name, domain in analysis.domains.items()
    ]
    columns = ["domain", "images", "spread within classes\n/ between them", "distance\nfrom base", "attention\nentropy"]
    if analysis.adapter is not None:
        columns += ["cosine\nwith before", "common\nshift"]
    return Table(
        "What the embeddings look like" + _stages(analysis),
        tuple(columns),
        tuple(rows),
        caption="Spread: smaller is better separated. Distance: 0 not to be told apart, 2 always. "
        "Entropy of the class token's attention in nats, mean of layers and heads: smaller looks at fewer places."
        + ("" if analysis.adapter is None else " Shift: of the mean embedding, in units of the spread before."),
    )


def bound_table(analysis: Analysis) -> Table:
    """Make a table of the terms of the bound, a row for each domain and shot."""
    from cplsr.report.tables import Cell, Table

    names = {
        "tr_sigma": "spread between\nclasses tr Σ",
        "tr_sigma_tau": "within them\ntr Σ_τ",
        "V_tr": "unequal spread\nV_tr",
        "V_wit": "within-class\nV_wit",
        "Ed2": "distances\nEd²",
        "base_term": "base\nterm",
    }
    rows = []
    for name, domain in analysis.domains.items():
        for shot in domain.before.bound:
            figures = (Cell(_before_after(domain, partial(_term, shot, term))) for term in names)
            rows.append((Cell(name), Cell(str(shot)), *figures))
    return Table(
        "Terms of the generalization bound (Eq. 14-17)" + _stages(analysis),
        ("domain", "shot", *names.values()),
        tuple(rows),
        caption=f"A base term of 1 or more, of at most {analysis.settings['way'] - 1} at this way, bounds nothing: "
        "read it as a comparison.",
    )


def _term(shot: int, term: str, measures: Measures) -> float:
    return getattr(measures.bound[shot], term)


def _stages(analysis: Analysis) -> str:
    return "" if analysis.adapter is None else ": frozen → adapted"


def _before_after(domain: DomainAnalysis, measure: Callable[[Measures], float | None]) -> str:
    figures = [measure(stage) for stage in (domain.before, domain.after) if stage is not None]
    return "" if figures[0] is None else " → ".join(f"{figure:.4g}" for figure in figures)
