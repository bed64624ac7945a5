"""What a page is made of: results, training runs, analyses and ablations, each with the name it goes by."""

from __future__ import annotations

from dataclasses import dataclass

from cplsr.records.ablation import AblationRun
from cplsr.records.analysis import Analysis
from cplsr.records.results import Results
from cplsr.records.run import Metrics, TrainingRun
from cplsr.report.tables import Table


@dataclass(frozen=True)
class Evaluation:
    """A results file of `cplsr evaluate`."""

    name: str
    results: Results


@dataclass(frozen=True)
class Training:
    """A run folder of `cplsr train`: run.json, and metrics.jsonl divided into steps and validations."""

    name: str
    about: TrainingRun
    metrics: tuple[Metrics, ...]

    @property
    def steps(self) -> list[tuple[int, float, float]]:
        """(episode, loss, images per second)."""
        return [(m.episode, m.loss, m.images_per_second or 0.0) for m in self.metrics if m.loss is not None]

    @property
    def validations(self) -> list[tuple[int, float, float | None]]:
        """(episode, accuracy, half-width)."""
        return [(m.episode, m.validation, m.validation_ci95) for m in self.metrics if m.validation is not None]

    @property
    def distances(self) -> dict[str, list[tuple[int, float]]]:
        """Of every layer its (episode, ‖C − I‖); empty for adapters without C."""
        layers: dict[str, list[tuple[int, float]]] = {}
        for m in self.metrics:
            for layer, distance in m.distance_from_identity.items():
                layers.setdefault(layer, []).append((m.episode, distance))
        return layers


@dataclass(frozen=True)
class Analyzed:
    """A folder of `cplsr analyze`."""

    name: str
    analysis: Analysis


@dataclass(frozen=True)
class Ablation:
    """A folder of `cplsr ablate`: its runs, and the table they make."""

    name: str
    runs: tuple[AblationRun, ...]
    table: Table


@dataclass(frozen=True)
class Material:
    """Everything that goes on a page, and the files it came from with the first digits of their SHA-256."""

    evaluations: tuple[Evaluation, ...] = ()
    trainings: tuple[Training, ...] = ()
    analyses: tuple[Analyzed, ...] = ()
    ablations: tuple[Ablation, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
