"""An ablation: what every row gained over the frozen backbone, and the tables."""

from __future__ import annotations

from collections.abc import Sequence

from cplsr.records.ablation import AblationRun
from cplsr.report.ablation_table import gains, tables_by_shot, targets_of
from cplsr.report.differences import difference_chart
from cplsr.report.figures import figures
from cplsr.report.sections import details, table_with_sources
from cplsr.report.sources import Ablation


def ablation(own: Ablation) -> str:
    """Differences lead, over all targets; those of each target are folded."""
    targets = targets_of(own.runs)
    each = "".join(_gains(own.runs, [target], target) for target in targets) if len(targets) > 1 else ""
    over = "mean of the targets" if len(targets) > 1 else "".join(targets)
    tables = "".join(map(table_with_sources, tables_by_shot(own.runs)))
    return _gains(own.runs, targets, over) + details("The same for each target", each) + tables


def _gains(runs: Sequence[AblationRun], targets: Sequence[str], over: str) -> str:
    """A chart for each shot."""
    by_shot = {shot: gains(runs, shot, targets) for shot in sorted({run.shot for run in runs})}
    return figures(
        difference_chart(rows, title=f"Rows minus frozen at {shot} shot, {over}")
        for shot, rows in by_shot.items()
        if rows
    )
