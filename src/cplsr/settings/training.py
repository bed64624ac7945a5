"""Everything that decides a training run, beside the backbone, the adapter and the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from cplsr.declared import Declared, above, between
from cplsr.errors import InputError
from cplsr.settings.episodes import EpisodeShape, PrototypeKind
from cplsr.settings.numbers import BaseEpisodes, DrawnEpisodes, LearningRate, Seed, Temperature

TURNS = 4
"""Quarter turns of an image."""

NovelSimilarity = Literal["dot", "cosine"]
Statistics = Literal["raw", "normalized"]
Shrinkage = Literal["none", "ledoit_wolf"]
Ridge = Annotated[float, between(0, 1_000_000)]
Optimizer = Literal["adamw", "adam", "sgd"]
Schedule = Literal["constant", "cosine"]
Augment = Literal["none", "colors", "crop", "foreign"]
Turned = Literal["classes", "views"]
TrainedHead = Literal["prototypes", "ridge"]
Trains = Literal["auto", "adapter", "backbone"]


@dataclass(frozen=True)
class TrainingDomains(Declared):
    """What is trained on."""

    base: str = ""
    """Base domain: a folder with a folder per class, procedural:base, mini-imagenet:DIR, or any other source."""
    val: str | None = None
    """Validation classes. Default: the base's own split, else 20 % of its classes."""


@dataclass(frozen=True)
class PseudoEpisodeRecipe(EpisodeShape):
    """Episodes of embeddings alone, chosen from `candidates` (N_C) blends of base classes.

    `survivors` · `way` (N_0 · N) candidates pass the novel-novel criterion, `way` of them the base-novel criterion.
    """

    candidates: Annotated[int, between(1, 10_000)] = 100
    """Candidate pseudo-classes per pseudo-episode (N_C)."""
    survivors: Annotated[int, between(1, 10_000)] = 2
    """Times `way` candidates pass the novel-novel criterion (N_0)."""
    novel_similarity: NovelSimilarity = "dot"
    """Similarity in the novel-novel criterion."""

    def __post_init__(self) -> None:
        """Refuse more survivors than there are candidates."""
        super().__post_init__()
        if self.draws_candidates and self.survivors * self.way > self.candidates:
            raise InputError(
                f"{self.survivors} · {self.way} survivors cannot be chosen from {self.candidates} candidates: "
                f"give at least {self.survivors * self.way} candidates"
            )

    @property
    def draws_candidates(self) -> bool:
        """Whether there are pseudo-episodes at all."""
        return True


@dataclass(frozen=True)
class TrainingSettings(PseudoEpisodeRecipe):
    """Defaults are the paper's, or where it is silent those of the method's documentation."""

    episodes: BaseEpisodes = 1000
    """Base episodes."""
    episodes_per_step: Annotated[int, between(1, 10_000)] = 1
    """Base episodes per process whose gradients are averaged."""
    optimizer: Optimizer = "adamw"
    """What makes steps of gradients; sgd has momentum 0.9."""
    lr: LearningRate = 1e-5
    """Learning rate."""
    objective_lr: LearningRate | None = None
    """Learning rate of the parameters that the method adds to the adapter's. Default: `lr`."""
    weight_decay: Annotated[float, between(0, 1000)] = 0.0
    """Weight decay."""
    schedule: Schedule = "constant"
    """What becomes of the learning rates over the run; cosine lets them fall to 0."""
    warmup: Annotated[float, between(0, 1)] = 0.0
    """Share of the optimizer steps in which the learning rates rise linearly."""
    augment: Augment = "none"
    """Random changes of base images: color jitter and flip, for crop of a random piece enlarged to the whole; or each
    of random convolution, jitter, gray, blur, posterizing and masked frequencies with some chance."""
    head: TrainedHead = "prototypes"
    """What answers the queries in loss and validation: cosines with prototypes, or ridge regression."""
    temperature: Temperature = 20.0
    """Factor of the cosines, or of the scores of the ridge regression."""
    prototype: PrototypeKind = "mean"
    """Prototype of a class: mean of the raw embeddings, or of the embeddings scaled to length one."""
    symmetry: Annotated[float, between(0, 1_000_000)] = 0.0
    """Factor of the penalty on C − Cᵀ (free coalescent projections only)."""
    anchor: Annotated[float, between(0, 1_000_000)] = 0.0
    """Factor of the penalty on 1 − cos between the adapted and the frozen embedding of each image of an episode."""
    trust: Annotated[float, above(0, 1_000_000)] | None = None
    """Largest ‖C − I‖ of a head: what a step leads further away is brought back (coalescent projections only)."""
    sst: bool = True
    """Self-supervised transformations: every image turned four ways, every turn a class of its own."""
    turns: Turned = "classes"
    """With `sst`: every turn a class of its own, or every image turned at random and its class the same."""
    pe: bool = True
    """Pseudo-embeddings: join every episode with one of pseudo-classes."""
    select: Literal["best", "last"] = "best"
    """Which adapter goes to RUN/adapter: the best on the validation episodes, or the last."""
    average: Annotated[float, between(0, 1)] = 0.0
    """Share of the run, its last part, over which the mean of the adapter's parameters is the last adapter."""
    validation_episodes: DrawnEpisodes = 600
    """Fixed validation episodes; with `sst` a multiple of 4, for they are of turned classes."""
    validate_every: Annotated[int, between(0, 10_000_000)] | None = None
    """Base episodes between validations; 0 only at start and end. Default: a tenth of the run, at most 100."""
    statistics: Statistics = "raw"
    """Gaussians of raw embeddings, or of embeddings scaled to length one."""
    statistics_images: Annotated[int, between(2, 10_000_000)] | None = None
    """At most this many images of each class in the statistics."""
    shrinkage: Shrinkage = "none"
    """Shrinkage of the covariances."""
    ridge: Ridge = 1e-3
    """Added to the diagonal of the covariances (ε)."""
    pseudo_episodes: DrawnEpisodes = 100
    """Pseudo-episodes drawn beforehand and used again and again (E_P)."""
    online: bool = False
    """A fresh pseudo-episode every step instead."""
    follow: Annotated[int, between(0, 10_000_000)] = 0
    """Base episodes after which the Gaussians' means move by the drift of their classes under the adapter; 0 never."""
    checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, more time."""
    compile: bool = False
    """Compile the backbone with torch.compile; pays on GPUs."""
    seed: Seed = 0
    """Decides episodes, pseudo-episodes, held-out classes and start values."""

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        super().__post_init__()
        if self.way < 2:
            raise InputError("way is 1: an episode with one class has nothing to tell apart, give at least 2")
        if self.turned_classes and self.validation_episodes % TURNS:
            raise InputError(
                f"validation_episodes is {self.validation_episodes}: a draw is turned four ways, give a multiple of 4"
            )

    @property
    def draws_candidates(self) -> bool:
        """Whether there are pseudo-episodes at all."""
        return self.pe

    @property
    def turned_classes(self) -> bool:
        """Whether every turn of a class is a class of its own."""
        return self.sst and self.turns == "classes"

    @property
    def turns_per_class(self) -> int:
        """How many classes a base class gives, and an episode steps of the optimizer."""
        return TURNS if self.turned_classes else 1

    @property
    def validation_interval(self) -> int:
        """Base episodes between two validations; 0 means only at the start and the end."""
        return max(1, min(100, self.episodes // 10)) if self.validate_every is None else self.validate_every
