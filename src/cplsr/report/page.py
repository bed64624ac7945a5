"""The page: all sections, a table of contents, and a style of its own; one file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import partial
from importlib.resources import files
from pathlib import Path
from string import Template

from cplsr.files import write_file
from cplsr.records.analysis import Analysis
from cplsr.records.results import Results
from cplsr.report.ablation_section import ablation
from cplsr.report.accuracy_section import accuracies, base_set, beside_paper, differences
from cplsr.report.analysis_section import SUBJECTS
from cplsr.report.classes_section import CALIBRATION, CONFUSIONS, calibrations, confusions
from cplsr.report.markup import element, text
from cplsr.report.sections import Section, section
from cplsr.report.settings_section import data_section, settings_section
from cplsr.report.sources import Ablation, Material, Training, gather
from cplsr.report.summary import summary_section
from cplsr.report.training_section import curves
from cplsr.version import __version__

TITLE = "Few-shot report"


def write_report(
    sources: Iterable[Path | str], out: Path | str, *, title: str = TITLE, command: str | None = None
) -> list[str]:
    """Make one self-contained page of runs, results, analyses and ablations; gives the titles of its sections.

    The same sources, which are recognized by what is in them, give the same page, byte for byte. `command` is shown as
    the one that made it.
    """
    material = gather(sources)
    sections = page_sections(material, command)
    write_file(out, page(sections, title))
    return [each.title for each in sections]


def page_sections(material: Material, command: str | None = None) -> list[Section]:
    """The sections there is something to say in."""
    results, trainings, analyses = material.of(Results), material.of(Training), material.of(Analysis)
    beside = partial(beside_paper, base=base_set([training for _, training in trainings]))
    sections = [
        summary_section(material),
        section("differences", "Differences, episode by episode", results, differences),
        section("accuracy", "Accuracy", results, accuracies),
        section("paper", "Against the paper", results, beside),
        section("ablation", "Ablation", material.of(Ablation), ablation),
        section("classes", "Class by class", results, confusions, CONFUSIONS, folded=True),
        section("calibration", "Calibration", results, calibrations, CALIBRATION, folded=True),
        section("training", "Training", trainings, curves),
        *(
            section(key, title, analyses, write, explanation, folded=number > 0)
            for number, (key, title, explanation, write) in enumerate(SUBJECTS)
        ),
        data_section(material),
        settings_section(material, command),
    ]
    return [each for each in sections if each.body]


def page(sections: list[Section], title: str) -> str:
    """The whole document."""
    links = [element("li", element("a", text(each.title), href=f"#{each.key}")) for each in sections]
    script = _resource("page.js")
    document = Template(_resource("page.html")).substitute(
        policy=text(_policy(script)),
        title=text(title),
        style=_resource("page.css"),
        contents="".join(links),
        sections="".join(each.to_html() for each in sections),
        version=__version__,
        script=script,
    )
    return document.encode("utf-8", "replace").decode("utf-8")


def _policy(script: str) -> str:
    """What a browser may do with the page: show its own style and pictures, run its own script, fetch nothing."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    nothing = "default-src 'none'; base-uri 'none'; form-action 'none'"
    return f"{nothing}; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _resource(name: str) -> str:
    return (files("cplsr.report") / name).read_text(encoding="utf-8")
