"""The page: all sections, a table of contents, and a style of its own; one file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import partial
from importlib.resources import files
from pathlib import Path

from cplsr.files import new_file
from cplsr.records.analysis import Analysis
from cplsr.records.results import Results
from cplsr.report.ablation_table import table_of
from cplsr.report.accuracy_section import accuracies, differences
from cplsr.report.analysis_section import SUBJECTS
from cplsr.report.classes_section import CALIBRATION, CONFUSIONS, calibrations, confusions
from cplsr.report.markup import element, text
from cplsr.report.material import Ablation, Material, Training
from cplsr.report.published_section import base_set, beside_paper
from cplsr.report.sections import Section, section, table_with_sources
from cplsr.report.settings_section import data_section, settings_section
from cplsr.report.sources import gather
from cplsr.report.summary import summary_section
from cplsr.report.training_section import curves
from cplsr.version import __version__

TITLE = "Few-shot report"


def write_report(
    sources: Iterable[Path | str], out: Path | str, *, title: str = TITLE, command: str | None = None
) -> list[str]:
    """Make one self-contained page of runs, results, analyses and ablations; gives the titles of its sections.

    sources: files and folders, recognized by what is in them.
    command: what to show as the command that made the page.

    The same sources give the same page, byte for byte.
    """
    material = gather(sources)
    sections = page_sections(material, command)
    with new_file(out) as stream:
        stream.write(page(sections, title))
    return [each.title for each in sections]


def page_sections(material: Material, command: str | None = None) -> list[Section]:
    """The sections there is something to say in."""
    results, trainings, analyses = material.of(Results), material.of(Training), material.of(Analysis)
    beside = partial(beside_paper, base=base_set([training for _, training in trainings]))
    sections = [
        summary_section(material),
        section("accuracy", "Accuracy", results, accuracies),
        section("differences", "Differences, episode by episode", results, differences),
        section("paper", "Against the paper", results, beside),
        section("ablation", "Ablation", material.of(Ablation), lambda own: table_with_sources(table_of(own.runs))),
        section("classes", "Class by class", results, confusions, CONFUSIONS),
        section("calibration", "Calibration", results, calibrations, CALIBRATION),
        section("training", "Training", trainings, curves),
        *(section(key, title, analyses, write, explanation) for key, title, explanation, write in SUBJECTS),
        data_section(material),
        settings_section(material, command),
    ]
    return [each for each in sections if each.body]


def page(sections: list[Section], title: str) -> str:
    """The whole document."""
    links = [element("li", element("a", text(each.title), href=f"#{each.key}")) for each in sections]
    contents = element("nav", element("ol", *links), aria_label="Contents")
    header = element("header", element("p", "cplsr report", class_="kicker"), element("h1", text(title)))
    footer = element(
        "footer", text(f"Made by cplsr {__version__}. Accuracies in percent, differences in percentage points.")
    )
    main = element("main", *(each.to_html() for each in sections))
    script = _resource("page.js")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        # An icon of its own keeps browsers from asking a server for one.
        '<link rel="icon" href="data:,">',
        element("title", text(title)),
        element("style", _resource("page.css")),
    )
    body = element(
        "body", TEXTURES, header, element("div", contents, main, class_="columns"), footer, element("script", script)
    )
    document = f"<!doctype html>\n{element('html', head, body, lang='en')}\n"
    return document.encode("utf-8", "replace").decode("utf-8")


TEXTURES = (
    '<svg width="0" height="0" class="textures" aria-hidden="true"><defs>'
    + "".join(
        f'<pattern id="texture{number}" width="6" height="6" patternUnits="userSpaceOnUse" class="s{number}">'
        f'<rect width="6" height="6" class="ground"/><path d="{path}" class="ink"/></pattern>'
        for number, path in (
            (2, "M0 6L6 0M-1 1L1 -1M5 7L7 5"),
            (3, "M3 0V6"),
            (4, "M0 0L6 6M-1 5L1 7M5 -1L7 1"),
            (5, "M0 3H6"),
            (6, "M0 3H6M3 0V6"),
            (7, "M3 3h.1"),
        )
    )
    + "</defs></svg>"
)


def _policy(script: str) -> str:
    """What a browser may do with the page: show its own style and pictures, run its own script, fetch nothing."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    nothing = "default-src 'none'; base-uri 'none'; form-action 'none'"
    return f"{nothing}; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _resource(name: str) -> str:
    return (files("cplsr.report") / name).read_text(encoding="utf-8")
