"""`cplsr data`: which data sets there are, and whether a download is all right."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

import cplsr
from cplsr.cli.options import parse
from cplsr.cli.terminal import terminal
from cplsr.errors import InputError
from cplsr.settings.embedding import DecodingSettings
from cplsr.settings.episodes import EpisodeShape

if TYPE_CHECKING:
    from rich.console import Console

    from cplsr.data.doctor import Finding

USAGE = """usage: cplsr data list
       cplsr data doctor DIR [--as NAME] [--shot 5] [--query 15] [--way 5]

list    the data sets that are known by name, their layout and where to get them
doctor  read every image of a data set and say what is right, what is not, and how to fix it
"""
FOLDER = "folder"
UNUSABLE = 2


@dataclass(frozen=True, kw_only=True)
class Doctor(DecodingSettings, EpisodeShape):
    """Read every image of a data set and say what is right, what is not, and how to fix it.

    Exit code 0 if episodes can be drawn from it, 2 otherwise.
    """

    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """Folder with one folder per class, or anything else that can be opened as a domain."""
    kind: Annotated[str, tyro.conf.arg(name="as")] = FOLDER
    """What it should be: folder, or a name from `cplsr data list`."""
    split: str | None = None
    """Split to look at, where there are several."""


def main(arguments: list[str]) -> int:
    """Run `cplsr data list` or `cplsr data doctor`, and give the exit code."""
    verb, rest = (arguments[0], arguments[1:]) if arguments else ("--help", [])
    if verb in ("-h", "--help"):
        print(USAGE, end="")
        return 0
    if verb == "list" and not rest:
        return list_data_sets()
    if verb == "doctor":
        return doctor(parse(Doctor, "data doctor", rest))
    print(USAGE, end="", file=sys.stderr)
    return UNUSABLE


def list_data_sets() -> int:
    """Print the catalog, the procedural domains and the other kinds of sources."""
    from cplsr.data.catalog import CATALOG
    from cplsr.data.procedural import DOMAINS

    console = terminal()
    console.print("[bold]Benchmark data sets[/] (base sets: train / val / test, split by class)")
    for entry in CATALOG.values():
        classes = " / ".join(f"{count.classes:,}" for count in entry.expected.values())
        images = " / ".join(f"{count.images:,}" for count in entry.expected.values())
        console.print(f"[cyan]{entry.name}:DIR[/]  {classes} classes, {images} images")
        _print_indented(console, f"in DIR: {entry.layout}")
        _print_indented(console, f"from: {entry.where}")
    console.print("\n[bold]Without a download[/]")
    for name, domain in DOMAINS.items():
        console.print(f"[cyan]procedural:{name}[/]  {domain.summary}")
    console.print("[cyan]digits[/]  scikit-learn's handwriting")
    console.print("\n[bold]Your own[/]")
    console.print("a folder with one folder per class, a csv of path,label, a folder of parquet files, hf:user/name")
    return 0


def doctor(options: Doctor) -> int:
    """Examine a data set, print the findings, and give 0 only if it is usable."""
    from cplsr.data.catalog import CATALOG
    from cplsr.data.doctor import Finding, examine

    entry = CATALOG.get(options.kind)
    source = options.source if options.kind == FOLDER else f"{options.kind}:{options.source}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the findings say the same
            domain = cplsr.open_domain(source, split=options.split)
    except InputError as error:
        fix = f"layout: {entry.layout}; where to get it: {entry.where}" if entry else ""
        return _print(options.source, [Finding("bad", str(error), fix)])
    return _print(domain.name, examine(domain, options, where=entry.where if entry else None, workers=options.workers))


def _print(name: str, findings: Sequence[Finding]) -> int:
    from rich.table import Column, Table
    from rich.text import Text

    console = terminal()
    marks = {"good": ("ok ", "green"), "remark": ("see", "yellow"), "bad": ("BAD", "bold red")}
    console.print(Text(name, style="bold"))
    for finding in findings:
        lines = Table.grid("", Column(overflow="fold"), padding=(0, 1))
        lines.add_row(Text(*marks[finding.verdict]), Text(finding.text))
        if finding.fix:
            lines.add_row("", Text(f"→ {finding.fix}", style="dim"))
        console.print(lines)
    usable = all(finding.verdict != "bad" for finding in findings)
    console.print(Text("usable" if usable else "not usable", style="bold"))
    return 0 if usable else UNUSABLE


def _print_indented(console: Console, text: str) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(Padding(Text(text, style="dim"), (0, 0, 0, 4), expand=False))
