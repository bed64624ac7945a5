"""What a page is made of: results, training runs, analyses and ablations, each with the name it goes by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from cplsr.records.ablation import AblationRun
from cplsr.records.analysis import Analysis
from cplsr.records.results import Results
from cplsr.records.run import Metrics, TrainingRun


@dataclass(frozen=True)
class Training:
    """A run folder of `cplsr train`: run.json, and metrics.jsonl divided into steps and validations."""

    about: TrainingRun
    metrics: tuple[Metrics, ...]

    @property
    def steps(self) -> list[tuple[int, float, float]]:
        """Episode, loss and images per second of every step."""
        return [(m.episode, m.loss, m.images_per_second or 0.0) for m in self.metrics if m.loss is not None]

    @property
    def validations(self) -> list[tuple[int, float, float | None]]:
        """Episode, accuracy and its half-width of every validation."""
        return [(m.episode, m.validation, m.validation_ci95) for m in self.metrics if m.validation is not None]


@dataclass(frozen=True)
class Ablation:
    """A folder of `cplsr ablate`: its runs, in the order in which their rows are to stand."""

    runs: tuple[AblationRun, ...]


Record = Results | Training | Analysis | Ablation
T = TypeVar("T", bound=Record)


@dataclass(frozen=True)
class Material:
    """Everything that goes on a page by name, and the files it came from with the first digits of their SHA-256."""

    entries: tuple[tuple[str, Record], ...]
    files: tuple[tuple[str, str], ...] = ()

    def of(self, kind: type[T]) -> list[tuple[str, T]]:
        """Names and contents of all records of one kind."""
        return [(name, record) for name, record in self.entries if isinstance(record, kind)]
