"""What all runs of an ablation share, loaded once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from cplsr.ablation.plan import Run
from cplsr.backbones.backbone import Backbone
from cplsr.backbones.load import open_backbone
from cplsr.data.decoded_images import decoded_images
from cplsr.data.domain import Domain
from cplsr.data.open import open_domain, open_targets
from cplsr.evaluation.cache import EmbeddingCache
from cplsr.evaluation.contenders import target_sampler
from cplsr.evaluation.embed import embed_domain
from cplsr.processes import Processes
from cplsr.settings.ablation import SharedSettings
from cplsr.settings.backbone import Pooling
from cplsr.settings.episodes import EpisodeSettings
from cplsr.settings.training import TrainingSettings
from cplsr.training.base_statistics import base_gaussians
from cplsr.training.validation import hold_out_classes

_NOT_FIGURES = frozenset({"device", "batch_size", "workers", "threads"})
_LATER = ("layers", "views", "best_on_target")
"""Settings that came after the first records: those name them only where they are not the default."""
_STATISTICS = ("turned_classes", "statistics", "statistics_images", "shrinkage", "ridge")


@dataclass(frozen=True, kw_only=True)
class Setup(SharedSettings):
    """Backbone, data and evaluation of an ablation, by name: small enough to be sent to another machine."""

    targets: tuple[tuple[str | None, str], ...]
    """(name, source) of each domain to measure on; the name `None` stands for the domain's own."""

    def evaluation(self, settings: TrainingSettings) -> EpisodeSettings:
        """Say on which episodes a run is measured: drawn by its own seed, so that several seeds are independent."""
        return EpisodeSettings(
            shots=(settings.shot,) if self.match_shot else self.shots,
            way=settings.way,
            query=self.evaluation_query,
            episodes=self.evaluation_episodes,
            seed=settings.seed,
            prototype=settings.prototype,
        )

    def trained_pooling(self, run: Run) -> Pooling:
        """What a run's embeddings are in training."""
        return run.pooling or self.pooling

    def read_as(self, run: Run) -> tuple[Pooling, str]:
        """Embedding and head that a run is measured with: its own, those of all rows, or as in training."""
        pooling = run.read_pooling or self.read_pooling or self.trained_pooling(run)
        return pooling, run.read_head or self.read_head or run.settings.head

    def figure_settings(self, run: Run) -> dict[str, Any]:
        """The settings that a run's figures depend on, as plain data; device and batch size are not among them."""
        training_only = {"base", "val"} if run.frozen else set()
        content = {name: value for name, value in asdict(self).items() if name not in _NOT_FIGURES | training_only}
        for name in _LATER:
            if content[name] == getattr(type(self), name):
                del content[name]
        content["pooling"] = self.trained_pooling(run)
        content["read_pooling"], content["read_head"] = self.read_as(run)
        for name, usual in (("read_pooling", content["pooling"]), ("read_head", run.settings.head)):
            if content[name] == usual:
                del content[name]
        if run.frozen and run.settings.head != TrainingSettings.head:
            content["head"] = run.settings.head
        content["shots"] = list(self.evaluation(run.settings).shots)
        content["way"] = run.settings.way
        content["prototype"] = run.settings.prototype
        return content


class Workspace:
    """The backbone and the domains of a setup, opened when first asked for and then kept."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    @cached_property
    def backbone(self) -> Backbone:
        """The frozen backbone; whoever puts an adapter on it takes it off again."""
        return open_backbone(self.setup)

    def pooled(self, pooling: Pooling) -> AbstractContextManager[None]:
        """Let the backbone make such embeddings until the end of the block."""
        return self.backbone.pooled(pooling, self.setup.layers if pooling == "depth" else None)

    @cached_property
    def targets(self) -> dict[str, Domain]:
        """Domains to measure on, by name."""
        return open_targets(self.setup.targets)

    @cached_property
    def _sources(self) -> tuple[Domain, Domain | None]:
        base = open_domain(self.setup.base)
        if self.setup.val is not None:
            return base, open_domain(self.setup.val)
        return base, None if base.validation is None else base.validation()

    def training_domains(self, settings: TrainingSettings) -> tuple[Domain, Domain]:
        """Open base and validation domain of a run.

        Where neither the setup nor the base domain has validation classes, some are held out by the run's seed.
        """
        base, val = self._sources
        return (base, val) if val is not None else hold_out_classes(base, way=settings.way, seed=settings.seed)

    def check(self, runs: Iterable[Run]) -> None:
        """Find out before hours of training whether every target opens and has images enough for an episode."""
        for settings in {self.setup.evaluation(run.settings) for run in runs}:
            for target, domain in self.targets.items():
                for shot in settings.shots:
                    target_sampler(domain, target, shot, settings)

    def fill_caches(self, runs: Sequence[Run], *, targets: bool = True) -> None:
        """Make everything that several runs need, so that runs that start together do not all make it at once.

        With `targets` the target domains are embedded by the frozen backbone, too.
        """
        alone, size, workers = Processes(), self.backbone.image_size, self.setup.workers
        done: set[tuple[object, ...]] = set()
        for run in (run for run in runs if not run.frozen):
            settings, pooling = run.settings, self.setup.trained_pooling(run)
            base, val = self.training_domains(settings)
            options = tuple(getattr(settings, name) for name in _STATISTICS) if settings.pe else ()
            if (key := (base.fingerprint, val.fingerprint, pooling, options)) in done:
                continue
            done.add(key)
            images, _ = (decoded_images(domain, size, processes=alone, workers=workers) for domain in (base, val))
            if settings.pe:
                with self.pooled(pooling):
                    base_gaussians(self.backbone, images, settings, processes=alone)
        batch_size = self.setup.batch_size
        for pooling in sorted({self.setup.read_as(run)[0] for run in runs}) if targets else ():
            with self.pooled(pooling):
                for domain in self.targets.values():
                    embed_domain(self.backbone, domain, batch_size=batch_size, workers=workers, cache=EmbeddingCache())
