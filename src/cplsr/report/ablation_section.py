"""Ablations: many trainings, one table."""

from __future__ import annotations

from cplsr.report.material import Ablation
from cplsr.report.sections import Section, part, table_with_sources


def ablation_section(ablations: tuple[Ablation, ...]) -> Section:
    """The table of every ablation."""
    bodies = [part(entry.name, table_with_sources(entry.table), of=len(ablations)) for entry in ablations]
    return Section("ablation", "Ablation", "".join(bodies))
