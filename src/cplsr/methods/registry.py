"""Methods by name. A new one is one file and one line here."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from cplsr.errors import InputError
from cplsr.methods.base import Adaptation, Method
from cplsr.training.objective import Objective

OWN = Method(
    name="cplsr",
    reference="coalescent projections and latent space reservation",
    trains="adapter",
    sees="base images and labels",
)
METHODS = {
    "pmf": "cplsr.methods.pmf",
    "styleadv": "cplsr.methods.styleadv",
    "fwt": "cplsr.methods.fwt",
}


def find_method(name: str) -> Method:
    """The method of that name."""
    if name == OWN.name:
        return OWN
    if name not in METHODS:
        near = difflib.get_close_matches(name, [OWN.name, *METHODS], n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"give one of {', '.join([OWN.name, *METHODS])}"
        raise InputError(f"there is no method {name!r}: {hint}")
    return importlib.import_module(METHODS[name]).METHOD


def make_objective(method: Method, options: Mapping[str, Any]) -> Objective | None:
    """The method's objective; `None` for CPLSR's own, which the training loop makes from its settings."""
    if method.objective is None:
        if options:
            raise InputError(f"the method {method.name!r} has no options, but {', '.join(options)} was given")
        return None
    return method.objective(**_checked(method.name, method.objective, options))


def make_adaptation(method: Method, options: Mapping[str, Any]) -> Adaptation | None:
    """What the method does with a target's support set; `None` where it only makes prototypes of it."""
    return None if method.adaptation is None else method.adaptation(**_checked(method.name, method.adaptation, options))


def _checked(name: str, cls: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    known = list(inspect.signature(cls).parameters)
    if unknown := sorted(set(options) - set(known)):
        near = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
        raise InputError(f"the method {name!r} has no option {unknown[0]!r}: {hint}")
    return dict(options)
