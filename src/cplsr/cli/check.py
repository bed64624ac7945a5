"""`cplsr check`: what to expect from examples, before anything is labeled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import tyro

from cplsr.cli.classify import FittingSettings, open_support
from cplsr.cli.options import parse
from cplsr.cli.terminal import print_plain, terminal
from cplsr.report.tables import Cell, Table, table

if TYPE_CHECKING:
    from cplsr.classifier.comparison import MethodScore


@dataclass(frozen=True, kw_only=True)
class Check(FittingSettings):
    """Judge a folder of examples by itself: images are held out and labeled from the others.

    Says what accuracy to expect, which images look mislabeled, which classes need more pictures, which head was chosen
    and why, and whether another head or backbone, more views of every image, or the backbone without its adapter does
    better, and by which option.
    """

    support: tyro.conf.Positional[str]
    """A folder with one folder per class, or a csv with the columns path,label."""
    compare_backbone: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Another backbone to compare with, repeatable: hub id, folder, checkpoint file or 'embedded'."""


def main(arguments: list[str]) -> int:
    """Parse the options, judge, say it in plain words."""
    options = parse(Check, "check", arguments)
    from cplsr.classifier.comparison import compare_embeddings, compare_methods, suggestions

    examples = open_support(options.support)
    classifier = options.fit_or_load(examples)
    console = terminal(soft_wrap=True)
    report = classifier.evaluate_support()
    scores: tuple[MethodScore, ...] = ()
    if report.recognized.of:
        others = compare_embeddings(classifier, examples, options.compare_backbone)
        scores = (*compare_methods(classifier), *others)
    if scores:
        console.print(methods_table(scores).to_rich())
    for sentence in (*report.sentences(), *suggestions(scores)):
        print_plain(console, sentence)
    return 0


def methods_table(scores: tuple[MethodScore, ...]) -> Table:
    """Make a table with a row for each method; the one that recognizes most is bold, even where that may be chance."""
    from cplsr.classifier.comparison import how_left_out

    best = max(score.accuracy.right for score in scores)
    rows = []
    for score in scores:
        share = score.accuracy
        counted = Cell(f"{share.right} of {share.of}", bold=share.right == best)
        rows.append((score.method, counted, "{:.0%} to {:.0%}".format(*share.interval)))
    caption = (
        f"{how_left_out(scores[0].accuracy.of)}. This compares methods: new pictures fare better, because "
        "here the class of an image has one example less"
    )
    return table("examples recognized by the others", ("method", "recognized", "95 % interval"), rows, caption)
