"""From rows of settings to runs: every row at every shot and seed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from cplsr.adapters.coalescent import Coalescent
from cplsr.adapters.kinds import check_options
from cplsr.declared import between, fit_table, kinds_of, nearest
from cplsr.episodes.heads import make_head
from cplsr.errors import InputError
from cplsr.evaluation.adapting import Adaptation
from cplsr.methods.registry import METHODS, OWN, make_adaptation, make_objective, starting_settings, trained_kind
from cplsr.methods.support_tuning import TUNED, make_tuning
from cplsr.records.results import FROZEN
from cplsr.settings.backbone import Pooling
from cplsr.settings.numbers import LearningRate, refuse_repeats
from cplsr.settings.training import TrainingSettings, Trains
from cplsr.training.objective import Objective

Rates = Literal["shared", "own", "both"]
OWN_RATE = ", own rate"
"""What the name of a row ends with where it is trained at its own learning rate."""

_PER_RUN = frozenset({"shot", "seed"})
_OF_METHODS = frozenset({"method", "method_options", "train", "adapt", "adapt_options", "tune_on_support"})


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What is compared in an ablation: an adapter trained by a method, each with its options.

    Attributes:
        adapter: A kind of adapter, or `frozen` for the backbone as it is, which needs no training.
        adapt: On how many episodes of each target the method adapts to the support set; 0: every episode is measured
            by prototypes.
        tune_on_support: Adapt not as the method does, but by tuning the class token (see `SupportTuning`).
        pooling: How embeddings are made in training; `None`: as the setup says.
        read_pooling: How they are made for the evaluation; `None`: as the setup says, else as in training.
        read_head: How they answer there; `None`: likewise.
    """

    adapter: str
    adapter_options: dict[str, Any] = field(default_factory=dict)
    method: str = OWN.name
    method_options: dict[str, Any] = field(default_factory=dict)
    adapt: Annotated[int, between(0, 1_000_000)] = 0
    adapt_options: dict[str, Any] = field(default_factory=dict)
    tune_on_support: bool = False
    pooling: Pooling | None = None
    read_pooling: Pooling | None = None
    read_head: str | None = None


USUAL = Candidate(adapter=Coalescent.kind)
_CANDIDATE = kinds_of(Candidate)
_KINDS: dict[str, Any] = {
    **{name: kind for name, kind in kinds_of(TrainingSettings).items() if name not in _PER_RUN},
    **_CANDIDATE,
    "train": Trains,
    "lr_own": LearningRate,
}
"""What a row of a recipe may set, and of which types."""


@dataclass(frozen=True, kw_only=True)
class AblationRow(Candidate):
    """One line of the table: a candidate, and the training settings that differ from the common ones.

    Attributes:
        overrides: The settings that the row's method brings, and over them those of the row itself.
        lr_own: The learning rate that suits this row, for comparisons that give every row its own.
    """

    name: str
    overrides: dict[str, Any]
    lr_own: float | None = None


@dataclass(frozen=True, kw_only=True)
class Run(Candidate):
    """The row of that name at one shot and seed, which stand in the settings of its training."""

    row: str
    settings: TrainingSettings

    def objective(self) -> Objective | None:
        """Make a new training objective of the run's method; `None` for CPLSR's own."""
        return make_objective(METHODS.find(self.method), self.method_options, self.settings)

    def adaptation(self) -> Adaptation | None:
        """Make what adapts to the support sets of targets; `None` where prototypes are all."""
        if self.adapt == 0 and not self.adapt_options and not self.tune_on_support:
            return None
        if self.adapt < 1:
            raise InputError(f"adapt is {self.adapt}: give the number of target episodes to adapt on")
        if self.tune_on_support:
            return make_tuning(self.adapt_options)
        adaptation = make_adaptation(METHODS.find(self.method), self.adapt_options)
        if adaptation is None:
            raise InputError(f"the method {self.method!r} only makes prototypes of a support set: remove adapt")
        return adaptation

    @property
    def adapts_by(self) -> str:
        """What adapts to the support sets of targets, where anything does."""
        return TUNED if self.tune_on_support else self.method

    @property
    def frozen(self) -> bool:
        """Whether there is nothing to train."""
        return self.adapter == FROZEN

    @property
    def name(self) -> str:
        """A name for files, unique among the runs of an ablation."""
        return f"{slug(self.row)}-{self.settings.shot}shot-seed{self.settings.seed}"

    @property
    def title(self) -> str:
        """A name for people."""
        return f"{self.row}, {self.settings.shot}-shot, seed {self.settings.seed}"


def read_rows(tables: Mapping[str, Any], common: Candidate = USUAL, trains: str = "auto") -> list[AblationRow]:
    """Make rows of the tables of a recipe, which are settings by the name of the row.

    `common` has the adapter and the method of rows that name none, `trains` what learns where they do not say.
    """
    if not tables:
        raise InputError('there is no row to run: write at least one table like [rows."CP + PE"] into the recipe')
    rows = [_read_row(name, table, common, trains) for name, table in tables.items()]
    seen: dict[str, str] = {}
    for row in rows:
        for name in (row.name, row.name + OWN_RATE):
            if seen.setdefault(slug(name), row.name) != row.name:
                raise InputError(
                    f"the rows {seen[slug(name)]!r} and {row.name!r} would share their files ({slug(name)}-…): "
                    "rename one of them"
                )
    return rows


def plan_runs(
    rows: Iterable[AblationRow],
    common: TrainingSettings,
    *,
    shots: Sequence[int],
    seeds: Sequence[int],
    rates: Rates = "shared",
    own_rates: Mapping[str, float] | None = None,
) -> list[Run]:
    """Make the runs of every row at every shot and seed, row by row.

    `common` are settings of all rows, where a row says nothing else. The `rates` say whether to train at the shared
    learning rate, at the rows' own, or at both: a row without a rate of its own (in `own_rates` or `lr_own`) is trained
    at the shared one; where a row has one, the name of its runs ends with `, own rate`.
    """
    refuse_repeats("shots", shots)
    refuse_repeats("seeds", seeds)
    return [
        _plan_run(row, name, common, {**row.overrides, **rate, "shot": shot, "seed": seed})
        for row in rows
        for name, rate in _variants(row, rates, (own_rates or {}).get(row.name, row.lr_own))
        for shot in shots
        for seed in seeds
    ]


def _plan_run(row: AblationRow, name: str, common: TrainingSettings, changes: Mapping[str, Any]) -> Run:
    """Make one run; what is wrong with it is said before anything is trained."""
    candidate = {part: getattr(row, part) for part in _CANDIDATE}
    try:
        run = Run(row=name, settings=replace(common, **changes), **candidate)
        make_head(run.read_head or run.settings.head)
        if not run.frozen:
            run.objective()
            run.adaptation()
    except InputError as error:
        raise InputError(f"row {row.name!r}: {error}") from error
    return run


def choose_runs(runs: Sequence[Run], only: Sequence[str]) -> list[Run]:
    """Choose the runs of the named rows, in their old order; without names all of them."""
    names = list(dict.fromkeys(run.row for run in runs))
    wanted: set[str] = set()
    for name in only:
        matching = {row for row in names if row in (name, name + OWN_RATE)}
        if not matching:
            raise InputError(f"there is no row {name!r} among those to run: {nearest(name, names)}")
        wanted |= matching
    return [run for run in runs if not only or run.row in wanted]


def slug(name: str) -> str:
    """Make a row's name part of a file name: small letters, digits and dots, all else a hyphen."""
    return re.sub(r"[^\w.]+", "-", name.lower()).strip("-.")


def _variants(row: AblationRow, rates: Rates, own: float | None) -> list[tuple[str, dict[str, float]]]:
    """Names and learning rates under which a row is run."""
    shared: tuple[str, dict[str, float]] = (row.name, {})
    if own is None or row.adapter == FROZEN or rates == "shared":
        return [shared]
    tuned = (row.name + OWN_RATE, {"lr": own})
    return [tuned] if rates == "own" else [shared, tuned]


def _read_row(name: str, table: Any, common: Candidate, trains: str) -> AblationRow:
    values = _values(name, table)
    own = values.pop("lr_own", None)
    given = {key: values.pop(key) for key in _CANDIDATE if key in values}
    kind, options = _named(given, "adapter", common)
    if kind == FROZEN:
        for key in (*options, *(_OF_METHODS & (given.keys() | values.keys()))):
            raise InputError(f"the row {name!r} gives {kind!r} the option {key!r}, which it does not have: remove it")
        return AblationRow(name=name, adapter=kind, overrides=values, lr_own=own, **given)
    method_name, method_options = _named(given, "method", common)
    trains = values.pop("train", trains)
    try:
        method = METHODS.find(method_name)
        kind, options = trained_kind(method, trains, kind, options)
        check_options(kind, options)
    except InputError as error:
        raise InputError(f"the row {name!r}: {error}") from error
    return AblationRow(
        name=name,
        overrides={**starting_settings(method, trains), **values},
        lr_own=own,
        adapter=kind,
        adapter_options=options,
        method=method_name,
        method_options=method_options,
        **given,
    )


def _values(name: str, table: Any) -> dict[str, Any]:
    """The settings in a row's table, each of the right type."""
    if not slug(name):
        raise InputError(f"a row is called {name!r}: give it a name with a letter or a digit")
    if not isinstance(table, Mapping):
        raise InputError(
            f'the row {name!r} is {table!r}; a table was wanted: write [rows."{name}"] and settings below it'
        )
    return fit_table(table, _KINDS, f"the row {name!r}")


def _named(values: dict[str, Any], what: str, common: Candidate) -> tuple[str, dict[str, Any]]:
    """The adapter or the method of a row with its options, taken out of its values; the common ones if it has none."""
    name = values.pop(what, None)
    options = values.pop(f"{what}_options", {} if name is not None else getattr(common, f"{what}_options"))
    return name or getattr(common, what), dict(options)
