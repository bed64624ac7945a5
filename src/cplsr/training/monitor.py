"""What a run tells while it goes: a live line on a terminal, log lines elsewhere, metrics on disk."""

from __future__ import annotations

import importlib.util
import logging
import sys
import time
from typing import Any

from cplsr.progress import progress_bar
from cplsr.records.estimate import Estimate
from cplsr.settings.training import TrainingSettings
from cplsr.training.run_folder import RunFolder, RunState

LOG_SECONDS = 20.0
_log = logging.getLogger(__name__)


class Monitor:
    """Takes the figures of every base episode and validation; only the first process shows and writes them."""

    def __init__(self, folder: RunFolder, settings: TrainingSettings, state: RunState, active: bool) -> None:
        self.folder, self.settings = folder, settings
        self.rows = state.metrics
        self.bar = progress_bar(settings.episodes, "training", unit="episode") if active else None
        self.board = _board(folder, state.episode) if active else None
        if self.bar is not None:
            self.bar.update(state.episode)
        self.done, self.spent, self.logged = 0, 0.0, time.monotonic()

    def close(self) -> None:
        """Take the live line away, and write what is left to write."""
        for shown in (self.bar, self.board):
            if shown is not None:
                shown.close()

    def episode(self, done: int, count: int, loss: float, accuracy: float, images: int, seconds: float) -> None:
        """Figures of the last `count` base episodes, up to `done`: their images took so many seconds."""
        if self.bar is None:
            return
        self.done += count
        self.spent += seconds
        rate = images / seconds
        row = {"episode": done, "loss": loss, "accuracy": accuracy, "images_per_second": round(rate, 2)}
        self._keep(row)
        self.bar.update(done - self.bar.n)
        shown = f"loss {loss:.4f}, val {self._validations()[-1]:.2f} %"
        self.bar.set_postfix_str(f"{shown}, {rate:.0f} images/s", refresh=False)
        if not sys.stderr.isatty() and (
            time.monotonic() - self.logged >= LOG_SECONDS or done == self.settings.episodes
        ):
            self.logged = time.monotonic()
            left = self.spent / self.done * (self.settings.episodes - done)
            _log.info(
                "episode %d/%d  loss %.4f  accuracy %.2f %%  %.0f images/s  %.0f s left",
                *(done, self.settings.episodes, loss, accuracy, rate, left),
            )

    def validation(self, done: int, interval: Estimate, change: dict[str, float] | None) -> None:
        """Validation accuracy after `done` base episodes, and how far C is from the identity."""
        if self.bar is None:
            return
        row: dict[str, Any] = {"episode": done, "validation": interval.mean, "validation_ci95": interval.half_width}
        if change is not None:
            row["distance_from_identity"] = change
        self._keep(row)
        _log.info("episode %d  validation %.2f ± %.2f %%", done, interval.mean, interval.half_width or 0.0)

    def summary(self) -> dict[str, float]:
        """First and last validation accuracy."""
        accuracies = self._validations()
        return {"start_accuracy": accuracies[0], "last_accuracy": accuracies[-1]}

    def _validations(self) -> list[float]:
        return [row["validation"] for row in self.rows if "validation" in row]

    def _keep(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        self.folder.append_metrics(row)
        if self.board is None:
            return
        for name, value in row.items():
            if isinstance(value, float):
                self.board.add_scalar(name, value, row["episode"])
            elif isinstance(value, dict):
                for part, number in value.items():
                    self.board.add_scalar(f"{name}/{part}", number, row["episode"])


def _board(folder: RunFolder, episode: int) -> Any:
    """A TensorBoard writer where tensorboard is installed; events after a restored episode are dropped."""
    if importlib.util.find_spec("tensorboard") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder.path / "tensorboard"), purge_step=episode + 1 if episode else None)
