"""`cplsr report`: one self-contained page of runs, results, analyses and ablations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from cplsr.cli.options import parse
from cplsr.declared import Declared
from cplsr.errors import InputError
from cplsr.records.public import public_command


@dataclass(frozen=True)
class Report(Declared):
    """Write one HTML file that holds everything: words, tables, charts. It needs no network and no other file.

    Give run folders of `cplsr train`, results files of `cplsr evaluate`, folders of `cplsr analyze` and
    `cplsr ablate`, or a folder that holds some of them; they are recognized by what is in them.
    """

    sources: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Files and folders to report on."""
    out: Path = Path("report.html")
    """The page."""
    title: str = "Few-shot report"
    """Heading of the page."""


def main(arguments: list[str]) -> int:
    """Parse the options and write the page."""
    options = parse(Report, "report", arguments)
    if not options.sources:
        raise InputError("there is nothing to report on: give a run folder, a results file or a folder that holds some")
    if options.out.is_dir():
        raise InputError(f"{options.out} is a folder: give --out a file, for example {options.out / 'report.html'}")
    from cplsr.report.page import write_report

    command = public_command(["cplsr", "report", *arguments])
    titles = write_report(options.sources, options.out, title=options.title, command=command)
    size = options.out.stat().st_size / 1024
    print(f"{options.out} ({size:,.0f} kB): {', '.join(titles)}")
    return 0
