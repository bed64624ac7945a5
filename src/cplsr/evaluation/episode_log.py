"""What came of each episode that was adapted on, kept on disk: a measurement of hours goes on where it was stopped."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cplsr.evaluation.cache import name_of
from cplsr.files import UnwritableError, read_sealed, write_sealed

ADAPTING = 1
"""Raised when an adaptation comes to other figures than before, so that older ones are not used again."""


@dataclass
class EpisodeLog:
    """Accuracies (between 0 and 1) and seconds of the first episodes of one measurement.

    Attributes:
        file: Where they are kept, whole or not at all; `None` keeps nothing.
    """

    file: Path | None = None
    accuracies: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, about: Mapping[str, Any], folder: Path) -> EpisodeLog:
        """What the folder knows of the measurement that `about` describes: all that its figures depend on, as JSON."""
        file = folder / f"{name_of({**about, 'adapting': ADAPTING})}.json"
        try:
            known = read_sealed(file)
            accuracies, seconds = ([float(value) for value in known[name]] for name in ("accuracies", "seconds"))
        except FileNotFoundError:
            return cls(file)
        except (OSError, ValueError, KeyError, TypeError) as error:
            warnings.warn(f"{file} cannot be read, so its episodes are done again: {error}", stacklevel=2)
            return cls(file)
        count = min(len(accuracies), len(seconds))
        return cls(file, accuracies[:count], seconds[:count])

    def __len__(self) -> int:
        """How many episodes are done."""
        return len(self.accuracies)

    def add(self, accuracy: float, seconds: float) -> None:
        """The next episode. A disk that is full or not writable is a warning, once: the figures are held anyway."""
        self.accuracies.append(accuracy)
        self.seconds.append(seconds)
        if self.file is None:
            return
        try:
            write_sealed(self.file, {"accuracies": self.accuracies, "seconds": self.seconds})
        except UnwritableError as error:
            warnings.warn(f"adapted episodes cannot be kept in {self.file} ({error.reason})", stacklevel=2)
            self.file = None
