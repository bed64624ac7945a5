"""Methods by name. A new one is one file and its name here, or an entry point of another package."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from cplsr.adapters.coalescent import Coalescent
from cplsr.adapters.full import Full
from cplsr.declared import fit, fit_arguments
from cplsr.errors import InputError
from cplsr.evaluation.adapting import Adaptation
from cplsr.methods.base import Method
from cplsr.named import Named
from cplsr.settings.training import TrainingSettings, Trains
from cplsr.training.objective import Objective

OWN = Method("cplsr", "coalescent projections and latent space reservation", None, trains="adapter", settings={})
_FILES = ("pmf", "styleadv", "ldp_net", "fap", "wave_san", "afa", "ata", "lrp", "fwt", "attn_temp", "reap", "cd_cls")
METHODS: Named[Method] = Named(
    "methods",
    "method",
    {OWN.name: "cplsr.methods.registry:OWN"} | {name: f"cplsr.methods.{name}:METHOD" for name in _FILES},
)

OWN_SETTINGS = ("head", "anchor")
"""Training settings that CPLSR's own loss alone knows."""

_OF_THE_BACKBONE = frozenset({"optimizer", "lr", "weight_decay", "schedule", "warmup"})
"""Settings that suit training of the whole backbone, and say nothing of an adapter."""


def starting_settings(method: Method, trains: str = "auto") -> dict[str, Any]:
    """The method's training settings, to be used where the user gives none.

    Optimizer, learning rate and the like are those of whole-backbone training; an adapter keeps the common ones. What
    the method says of its own parameters and of the images holds for both.
    """
    whole = _trains_backbone(method, trains)
    return {name: value for name, value in method.settings.items() if whole or name not in _OF_THE_BACKBONE}


def trained_kind(
    method: Method, trains: str, adapter: str, adapter_options: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Find kind and options of the adapter that a run trains, from those that were asked for.

    `trains` says `adapter` for the given one, `backbone` for all its weights, `auto` for what the method is known for.
    """
    fit(trains, Trains, "train")
    kind, options = adapter, dict(adapter_options)
    if _trains_backbone(method, trains):
        if options or kind not in (Coalescent.kind, Full.kind):  # the default, and what is trained anyway
            given = " ".join([kind, *(f"{name}={value}" for name, value in options.items())])
            raise InputError(
                f"the adapter {given} was asked for, but {method.name!r} is to train the whole backbone: leave the "
                "adapter out, or train it instead (--train adapter)"
            )
        kind = Full.kind
    if method.carrier in (None, kind):
        return kind, options
    return method.carrier, {"adapter": kind, "adapter_options": options}


def learning_kind(kind: str, options: Mapping[str, Any]) -> str:
    """Which kind of adapter learns: the one that another carries, or itself."""
    return options.get("adapter") or kind


def make_objective(
    method: Method, options: Mapping[str, Any], settings: TrainingSettings | None = None
) -> Objective | None:
    """Make the method's objective; `None` for CPLSR's own, which `train` makes from its settings.

    A method with a temperature takes it from the run's settings, unless the options have one.
    """
    if method.objective is None:
        if options:
            raise InputError(f"the method {method.name!r} has no options, but {', '.join(options)} was given")
        return None
    checked = _fitted(method, method.objective, options)
    if settings is not None:
        if settings.pe:
            raise InputError(f"the method {method.name!r} makes no use of pseudo-embeddings: give --no-pe (pe = false)")
        for name in OWN_SETTINGS:
            if getattr(settings, name) != getattr(TrainingSettings, name):
                raise InputError(f"the method {method.name!r} makes no use of --{name}: leave it out")
        if "temperature" in inspect.signature(method.objective).parameters:
            checked.setdefault("temperature", settings.temperature)
    return method.objective(**checked)


def make_adaptation(method: Method, options: Mapping[str, Any]) -> Adaptation | None:
    """What the method does with a target's support set; `None` where it only makes prototypes of it."""
    return None if method.adaptation is None else method.adaptation(**_fitted(method, method.adaptation, options))


def _trains_backbone(method: Method, trains: str) -> bool:
    return (method.trains if trains == "auto" else trains) == "backbone"


def _fitted(method: Method, maker: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    return fit_arguments(maker, options, f"the method {method.name!r}")
