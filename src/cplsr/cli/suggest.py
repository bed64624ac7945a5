"""`cplsr suggest`: which images to label next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cplsr.cli.classify import FittingSettings, ImagesRequest, check_overwriting, open_images
from cplsr.cli.options import parse
from cplsr.declared import between
from cplsr.errors import InputError
from cplsr.files import write_file
from cplsr.report.tables import Table, table

if TYPE_CHECKING:
    from cplsr.classifier.suggest import Suggestion


@dataclass(frozen=True, kw_only=True)
class Suggest(FittingSettings, ImagesRequest):
    """Say which images to label next: those whose labels would teach most, the best first.

    They are in doubt, unlike the examples and unlike each other. Put them into the folders of their classes among the
    examples, and ask again.
    """

    count: Annotated[int, between(1, 1000)] = 10
    """How many images to name."""
    out: Path | None = None
    """Also write them to this csv: path, label, confidence, runner_up, runner_up_confidence, why."""


def main(arguments: list[str]) -> int:
    """Parse the options, choose, say which."""
    options = parse(Suggest, "suggest", arguments)
    options.check_source(options.support, options.model)
    if options.query is None:
        raise InputError("there is nothing to choose from: give --query FOLDER, or a csv of paths")
    from cplsr.classifier.csv_run import check_out

    if options.out is not None:
        check_overwriting(options.out, options.force)
        check_out(options.out)
    queries, support = open_images(options.support, options.query, None)
    suggested = options.fit_or_load(support, options.model).suggest(queries, options.count)
    if not suggested:
        raise InputError(f"none of the {len(queries):,} images of {options.query} can be read: give others")
    for each in suggested:
        guess = each.guess
        print(f"{guess.name}: {guess.label} ({guess.confidence or 0.0:.0%}) as it looks; {each.reason}")
    if options.out is not None:
        write_file(options.out, suggestions_table(suggested).to_csv())
        print(f"written to {options.out}")
    return 0


def suggestions_table(suggested: list[Suggestion]) -> Table:
    """Make a table with a row for each image: its path, what it is taken for now, and why to label it."""
    from cplsr.classifier.csv_run import csv_row
    from cplsr.classifier.prediction import COLUMNS

    shown = COLUMNS[: COLUMNS.index("known")]
    rows = [(*csv_row(each.guess)[: len(shown)], each.reason) for each in suggested]
    return table("label these next", (*shown, "why"), rows)
