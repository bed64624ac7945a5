"""Everything that decides a training run, beside the backbone, the adapter and the data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from cplsr.errors import InputError
from cplsr.reservation.pseudo_episodes import PseudoEpisodeRecipe
from cplsr.reservation.rotation import TURNS

_CHOICES = {
    "prototype": ("mean", "mean_of_normalized"),
    "select": ("best", "last"),
    "statistics": ("raw", "normalized"),
    "shrinkage": ("none", "ledoit_wolf"),
    "novel_similarity": ("dot", "cosine"),
}


@dataclass(frozen=True)
class TrainingSettings:
    """Defaults are the paper's, or where it is silent those of the method's documentation.

    Episodes: `way`, `shot`, `query`; `episodes` base episodes; `sst` turns every image four ways (Eq. 13) and makes
    four episodes, hence four steps, of each; `pe` joins each with a pseudo-episode. Gradients of `episodes_per_step`
    base episodes per process are averaged.

    Optimizer: AdamW with `lr` and `weight_decay`; `symmetry` is the factor λ of ‖C − Cᵀ‖² (free coalescent projections
    only); `temperature` scales the cosines.

    Validation: `validation_episodes` fixed episodes every `validate_every` base episodes (default: a tenth of the run,
    at most 100; 0: only at the start and the end); `select` the best adapter or the last.

    Reservation: `statistics` of raw or normalized embeddings of at most `statistics_images` images per class,
    `shrinkage`, `ridge`; `candidates` (N_C), `survivors` (N_0), `novel_similarity`; `pseudo_episodes` (E_P) are drawn
    once, or with `online` a fresh one for every step.
    """

    way: int = 5
    shot: int = 5
    query: int = 15
    episodes: int = 1000
    lr: float = 1e-5
    weight_decay: float = 0.0
    temperature: float = 20.0
    prototype: str = "mean"
    symmetry: float = 0.0
    sst: bool = True
    pe: bool = True
    select: str = "best"
    validation_episodes: int = 600
    validate_every: int | None = None
    episodes_per_step: int = 1
    statistics: str = "raw"
    statistics_images: int | None = None
    shrinkage: str = "none"
    ridge: float = 1e-3
    candidates: int = 100
    survivors: int = 2
    novel_similarity: str = "dot"
    pseudo_episodes: int = 100
    online: bool = False
    checkpointing: bool = False
    compile: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise InputError(f"{name} is {getattr(self, name)!r}: give {' or '.join(choices)}")
        for name in ("way", "shot", "query", "episodes", "episodes_per_step", "pseudo_episodes"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}: give at least 1")
        if self.way < 2:
            raise InputError("way is 1: an episode with one class has nothing to tell apart, give at least 2")
        if self.validation_episodes < TURNS or self.validation_episodes % TURNS:
            raise InputError(
                f"validation_episodes is {self.validation_episodes}: a draw is turned four ways, give a multiple of 4"
            )
        for name in ("lr", "temperature"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"{name} is {getattr(self, name)}: give a number above 0")
        for name in ("weight_decay", "symmetry"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise InputError(f"{name} is {getattr(self, name)}: give a number that is not negative")
        if self.statistics_images is not None and self.statistics_images < 2:
            raise InputError(f"statistics_images is {self.statistics_images}: a covariance needs at least 2")

    @classmethod
    def of(cls, options: object, **changes: Any) -> TrainingSettings:
        """The settings that an object has under the same names, some of them changed."""
        return cls(**{field.name: getattr(options, field.name) for field in fields(cls)} | changes)

    @property
    def steps_per_episode(self) -> int:
        """Optimizer steps that one base episode gives."""
        return TURNS if self.sst else 1

    @property
    def validation_interval(self) -> int:
        """Base episodes between two validations; 0 means only at the start and the end."""
        if self.validate_every is not None:
            return max(0, self.validate_every)
        return max(1, min(100, self.episodes // 10))

    def pseudo_recipe(self) -> PseudoEpisodeRecipe:
        """The pseudo-episodes that go with the real ones."""
        return PseudoEpisodeRecipe(
            way=self.way,
            shot=self.shot,
            query=self.query,
            candidates=self.candidates,
            survivors=self.survivors,
            novel_similarity=self.novel_similarity,  # type: ignore[arg-type]
        )

    def as_dict(self) -> dict[str, Any]:
        """All settings by name."""
        return asdict(self)
