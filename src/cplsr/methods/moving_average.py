"""A twin of some parameters that follows them slowly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn


class MovingAverage(nn.Module):
    """The exponential moving average of trained parameters: twin ← m · twin + (1 − m) · parameter after every step.

    The twin is kept in buffers, so that it is stored and restored with the module that owns it; the parameters it
    follows belong to somebody else, and are not parameters of this module.
    """

    def __init__(self, parameters: Iterable[tuple[str, nn.Parameter]], momentum: float) -> None:
        super().__init__()
        self.momentum = momentum
        # In a tuple, so that torch does not take them for parameters of this module.
        self._followed = tuple((name.replace(".", "/"), parameter) for name, parameter in parameters)
        self._seen: tuple[int, ...] | None = None
        for name, parameter in self._followed:
            self.register_buffer(name, parameter.detach().clone())

    def follow(self) -> None:
        """Move the twin toward the parameters, once after each time they have changed.

        Calling it at the start of every loss is thus right however many losses one optimizer step adds up: torch counts
        how often a tensor was written to, and the twin moves only when the count did. The first call always moves it,
        which changes nothing in a new run and is due in a resumed one, whose state was stored right after a step.
        """
        written = tuple(parameter._version for _, parameter in self._followed)
        if written == self._seen:
            return
        self._seen = written
        with torch.no_grad():
            for name, parameter in self._followed:
                self.get_buffer(name).lerp_(parameter, 1 - self.momentum)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The twin's values in place of the parameters', until the block ends. Nothing may be trained in it."""
        own = [parameter.data for _, parameter in self._followed]
        try:
            with torch.no_grad():
                for name, parameter in self._followed:
                    parameter.data = self.get_buffer(name)
                yield
        finally:
            for (_, parameter), value in zip(self._followed, own, strict=True):
                parameter.data = value
