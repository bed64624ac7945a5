"""What choosing the epoch on the target is worth: every snapshot of a training, measured there.

Nobody may choose so, for a target's labels are what is to be predicted. Published figures are often chosen so all the
same; the difference between the best snapshot and the last shows by how much that flatters.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.errors import InputError
from cplsr.evaluation.evaluate import evaluate
from cplsr.records.results import SnapshotRow
from cplsr.records.run import SNAPSHOTS

if TYPE_CHECKING:
    from cplsr.backbones.backbone import Backbone
    from cplsr.data.domain import Domain


def measure_snapshots(
    backbone: Backbone, targets: dict[str, Domain], run: str | Path, head: str = Prototypes.name, **options: Any
) -> tuple[SnapshotRow, ...]:
    """Measure every snapshot of a run on every target, with one head and the other options of `evaluate`."""
    folder = Path(run).expanduser() / SNAPSHOTS
    kept = {path.name: path for path in sorted(folder.glob("*")) if path.name.isdigit()}
    if not kept:
        raise InputError(
            f"{run} has no {SNAPSHOTS}/, of which the best on the target could be told: train with --snapshots"
        )
    results = evaluate(backbone, targets, adapters=list(kept.items()), heads=[head], **options)
    episodes = ((row.method.partition(" ")[0], row) for row in results.rows)  # without what it was read with
    return tuple(
        SnapshotRow(int(episode), row.target, row.shot, row.accuracy, row.ci95)
        for episode, row in episodes
        if episode in kept
    )
