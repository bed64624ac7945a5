"""From rows of settings to runs: every row at every shot and seed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from cplsr.adapters.kinds import check_options
from cplsr.declared import between, fit_table, kinds_of, nearest
from cplsr.errors import InputError
from cplsr.evaluation.adapting import Adaptation
from cplsr.methods.registry import OWN, find_method, make_adaptation, make_objective, starting_settings, trained_kind
from cplsr.records.results import FROZEN
from cplsr.settings.numbers import LearningRate
from cplsr.settings.training import TrainingSettings, Trains
from cplsr.training.objective import Objective

Rates = Literal["shared", "own", "both"]
OWN_RATE = ", own rate"
"""What the name of a row ends with where it is trained at its own learning rate."""

_PER_RUN = frozenset({"shot", "seed"})
_OF_METHODS = frozenset({"method", "method_options", "train", "adapt", "adapt_options"})
_KINDS: dict[str, Any] = {
    **{name: kind for name, kind in kinds_of(TrainingSettings).items() if name not in _PER_RUN},
    "adapter": str,
    "adapter_options": dict[str, Any],
    "method": str,
    "method_options": dict[str, Any],
    "train": Trains,
    "adapt": Annotated[int, between(0, 1_000_000)],
    "adapt_options": dict[str, Any],
    "lr_own": LearningRate,
}


@dataclass(frozen=True)
class Row:
    """One line of the table: an adapter with its options, and the training settings that differ from the common ones.

    adapter: a kind of adapter, or `frozen` for the backbone as it is, which needs no training.
    overrides: the settings that the row's method brings, and over them those of the row itself.
    lr_own: the learning rate that suits this row, for comparisons that give every row its own.
    adapt: on how many episodes of each target the row's method does what it does with a support set, with
        `adapt_options`; 0: every episode is measured by prototypes.
    """

    name: str
    adapter: str
    adapter_options: dict[str, Any]
    overrides: dict[str, Any]
    lr_own: float | None = None
    method: str = OWN.name
    method_options: dict[str, Any] = field(default_factory=dict)
    adapt: int = 0
    adapt_options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One row at one shot and seed; the name of its files follows from them."""

    row: str
    adapter: str
    adapter_options: dict[str, Any]
    settings: TrainingSettings
    method: str = OWN.name
    method_options: dict[str, Any] = field(default_factory=dict)
    adapt: int = 0
    adapt_options: dict[str, Any] = field(default_factory=dict)

    def objective(self) -> Objective | None:
        """A new objective of the run's method; `None` for CPLSR's own."""
        return make_objective(find_method(self.method), self.method_options, self.settings)

    def adaptation(self) -> Adaptation | None:
        """What is done with the support sets of targets; `None` where prototypes are all."""
        if self.adapt == 0 and not self.adapt_options:
            return None
        if self.adapt < 1:
            raise InputError(f"adapt is {self.adapt}: give the number of target episodes to adapt on")
        adaptation = make_adaptation(find_method(self.method), self.adapt_options)
        if adaptation is None:
            raise InputError(f"the method {self.method!r} only makes prototypes of a support set: remove adapt")
        return adaptation

    @property
    def frozen(self) -> bool:
        """Whether there is nothing to train."""
        return self.adapter == FROZEN

    @property
    def name(self) -> str:
        """Unique among the runs of an ablation, and fit for a file name."""
        return f"{slug(self.row)}-{self.settings.shot}shot-seed{self.settings.seed}"

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.row}, {self.settings.shot}-shot, seed {self.settings.seed}"


def read_rows(
    tables: Mapping[str, Any],
    *,
    adapter: str = "coalescent",
    adapter_options: Mapping[str, Any] | None = None,
    method: str = OWN.name,
    method_options: Mapping[str, Any] | None = None,
    train: str = "auto",
) -> list[Row]:
    """Rows from the tables of a recipe; a misspelt name or a value of a wrong kind is an error that says so.

    adapter, adapter_options: of the rows that name no adapter.
    method, method_options: of the rows that name no method. train: of those that do not say what learns.
    """
    if not tables:
        raise InputError('there is no row to run: write at least one table like [rows."CP + PE"] into the recipe')
    common = {
        "adapter": adapter,
        "adapter_options": dict(adapter_options or {}),
        "method": method,
        "method_options": dict(method_options or {}),
        "train": train,
    }
    rows = [_read_row(name, table, common) for name, table in tables.items()]
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
    rows: Iterable[Row],
    common: TrainingSettings,
    *,
    shots: Sequence[int],
    seeds: Sequence[int],
    rates: Rates = "shared",
    own_rates: Mapping[str, float] | None = None,
) -> list[Run]:
    """Every row at every shot and seed, row by row.

    common: settings of all rows, where a row says nothing else; its shot and seed are replaced.
    rates: train at the shared learning rate, at the rows' own, or at both. A row without a rate of its own is trained
        at the shared one; where a row has one, the name of its runs ends with `, own rate`.
    own_rates: rates by row name, which stand in for the rows' `lr_own`.
    """
    for what, numbers in (("shots", shots), ("seeds", seeds)):
        if not numbers or len(set(numbers)) < len(numbers):
            raise InputError(f"{what} are {list(numbers)}: give at least one, each once")
    runs = []
    for row in rows:
        for name, changes in _variants(row, rates, (own_rates or {}).get(row.name, row.lr_own)):
            for shot in shots:
                for seed in seeds:
                    try:
                        settings = replace(common, **{**row.overrides, **changes, "shot": shot, "seed": seed})
                        run = Run(
                            name, row.adapter, row.adapter_options, settings, row.method, row.method_options, row.adapt,
                            row.adapt_options,
                        )  # fmt: skip
                        if not run.frozen:  # what is wrong with it is said before anything is trained
                            run.objective()
                            run.adaptation()
                    except InputError as error:
                        raise InputError(f"row {row.name!r}: {error}") from error
                    runs.append(run)
    return runs


def choose_runs(runs: Sequence[Run], only: Sequence[str]) -> list[Run]:
    """The runs of the named rows, in their old order; without names all of them."""
    names = list(dict.fromkeys(run.row for run in runs))
    wanted: set[str] = set()
    for name in only:
        found = {row for row in names if row in (name, name + OWN_RATE)}
        if not found:
            raise InputError(f"there is no row {name!r} among those to run: {nearest(name, names)}")
        wanted |= found
    return [run for run in runs if not only or run.row in wanted]


def slug(name: str) -> str:
    """A row's name as part of a file name: small letters, digits and dots, all else a hyphen."""
    return re.sub(r"[^\w.]+", "-", name.lower()).strip("-.")


def _variants(row: Row, rates: Rates, own: float | None) -> list[tuple[str, dict[str, float]]]:
    """Names and learning rates under which a row is run."""
    shared: tuple[str, dict[str, float]] = (row.name, {})
    if own is None or row.adapter == FROZEN or rates == "shared":
        return [shared]
    tuned = (row.name + OWN_RATE, {"lr": own})
    return [tuned] if rates == "own" else [shared, tuned]


def _read_row(name: str, table: Any, common: Mapping[str, Any]) -> Row:
    values = _values(name, table)
    own = values.pop("lr_own", None)
    kind, options = _named(values, "adapter", common)
    if kind == FROZEN:
        for key in (*options, *(_OF_METHODS & values.keys())):
            raise InputError(f"the row {name!r} gives {kind!r} the option {key!r}, which it does not have: remove it")
        return Row(name, kind, {}, values, own)
    method_name, method_options = _named(values, "method", common)
    trains = values.pop("train", common["train"])
    adapt, adapt_options = values.pop("adapt", 0), values.pop("adapt_options", {})
    try:
        method = find_method(method_name)
        kind, options = trained_kind(method, trains, kind, options)
        check_options(kind, options)
    except InputError as error:
        raise InputError(f"the row {name!r}: {error}") from error
    overrides = {**starting_settings(method, trains), **values}
    return Row(name, kind, options, overrides, own, method_name, method_options, adapt, adapt_options)


def _values(name: str, table: Any) -> dict[str, Any]:
    """The settings in a row's table, each of the right type."""
    if not slug(name):
        raise InputError(f"a row is called {name!r}: give it a name with a letter or a digit")
    if not isinstance(table, Mapping):
        raise InputError(
            f'the row {name!r} is {table!r}; a table was wanted: write [rows."{name}"] and settings below it'
        )
    return fit_table(table, _KINDS, f"the row {name!r}")


def _named(values: dict[str, Any], what: str, common: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The adapter or the method of a row with its options, taken out of its values; the common ones if it has none."""
    name = values.pop(what, None)
    options = values.pop(f"{what}_options", {} if name is not None else common[f"{what}_options"])
    return name or common[what], dict(options)
