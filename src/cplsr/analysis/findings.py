"""The folder of an analysis: what it found, and drawings of it."""

from __future__ import annotations

from pathlib import Path

from cplsr.analysis.cost import draw_cost
from cplsr.analysis.umap_view import draw_panels
from cplsr.environment import installed_version
from cplsr.errors import InputError
from cplsr.files import check_writable, new_folder
from cplsr.records.analysis import ATTENTION, FINDINGS, UMAP, Analysis

UMAP_PICTURE, COST_PICTURE = "umap.png", "cost.png"


def write_analysis(analysis: Analysis, out: Path | str) -> None:
    """Write the folder, whole or not at all; an older analysis in its place is replaced."""
    check_output(out)
    with new_folder(out) as folder:
        analysis.write(folder)
        if analysis.panels:
            draw_panels(analysis.panels, folder / UMAP_PICTURE)
        if analysis.cost and installed_version("matplotlib") is not None:
            draw_cost(analysis.cost, folder / COST_PICTURE)


def check_output(out: Path | str) -> None:
    """Refuse a place that holds anything but an older analysis."""
    path = Path(out)
    ours = {FINDINGS, UMAP, UMAP_PICTURE, COST_PICTURE, ATTENTION}
    if path.exists() and (not path.is_dir() or {entry.name for entry in path.iterdir()} - ours):
        raise InputError(f"{path} holds other things than an analysis, so it is not overwritten: give another folder")
    check_writable(path)
