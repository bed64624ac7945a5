"""What other processes do in tests: a module of its own, which they import in no time."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Loader:
    """Loads a random backbone; `kills` is a file that ends the first other process that loads, and goes with it."""

    path: Path
    pooling: str = "cls"
    adapter: bool = False
    kills: Path | None = None

    def __call__(self) -> Any:
        if self.kills is not None:
            end_once(self.kills)
        from cplsr.adapters.attach import attach
        from cplsr.backbones.load import load_backbone

        backbone = load_backbone(self.path, heads=2, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), pooling=self.pooling)
        return attach(backbone, "coalescent", init="near_identity", seed=1) if self.adapter else backbone


def end_once(marker: Path) -> None:
    """Kill this process if `marker` names another process, and remove it first."""
    if marker.exists() and marker.read_text() != str(os.getpid()):
        marker.unlink(missing_ok=True)
        os.kill(os.getpid(), signal.SIGKILL)


def squared_or_killed(item: tuple[int, Path]) -> int:
    """The square of a number; the process that gets 3 is killed while the marker is there."""
    if item[0] == 3:
        end_once(item[1])
    return item[0] ** 2


def end_always(item: object) -> None:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)
