"""A classifier whose backbone is tuned on its support images: what was asked for, and what can be tuned on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy import ndarray
from torch import Tensor

from cplsr.data.domain import Domain
from cplsr.errors import InputError
from cplsr.methods.support_tuning import SupportTuning, make_tuning


def asked_tuning(tune_on_support: Any) -> SupportTuning | None:
    """What `tune_on_support` asks for, by a truth value or a table of options."""
    if not isinstance(tune_on_support, (bool, Mapping)):
        raise InputError(f"tune_on_support={tune_on_support!r} is not usable: give True, False, or a table of options")
    return None if tune_on_support is False else make_tuning({} if tune_on_support is True else tune_on_support)


def check_tunable(pictures: Domain | Tensor | ndarray) -> None:
    """Raise `InputError` for what holds no raw pixels: a classifier tuned on its images needs them."""
    raw = pictures.vectors is None if isinstance(pictures, Domain) else pictures.dtype == torch.uint8
    if not raw:
        what = "normalized pixels" if isinstance(pictures, Tensor) else "embeddings"
        raise InputError(f"{what} were given to a classifier that is tuned on its images: give images, or uint8 pixels")
