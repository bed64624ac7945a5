"""What a stored adapter is: adapter.json."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from cplsr.declared import fit
from cplsr.records.parts import BackboneInfo
from cplsr.records.record import Record
from cplsr.settings.numbers import Temperature

DESCRIPTION = "adapter.json"
_FORMAT = 1


@dataclass(frozen=True)
class AdapterInfo(Record):
    """Kind and options of an adapter, the backbone it was trained on, and a checksum of its tensors.

    Attributes:
        format: Of the file and the tensors beside it.
        options: What it was made with, defaults included.
        backbone: The one it was trained on.
        info: Whatever was worth keeping with it: the shot it was trained for, settings, metrics.
        fingerprint: Hash of its parameters, kind and options.
        sha256: Of the file of tensors.
        folder: Where it is; not in the file.
    """

    file: ClassVar = DESCRIPTION
    what: ClassVar = "an adapter (written by `cplsr train`)"

    format: int = field(default=_FORMAT, kw_only=True)
    kind: str
    options: dict[str, Any]
    backbone: BackboneInfo
    info: dict[str, Any]
    versions: dict[str, str]
    fingerprint: str
    sha256: str
    folder: Path = field(default=Path(), compare=False)

    def __post_init__(self) -> None:
        """Refuse formats of later versions, and a shot or a temperature that is none."""
        if self.format != _FORMAT:
            raise ValueError(f"its format is {self.format}, this version reads {_FORMAT}: update cplsr")
        fit(self.info.get("shot"), int | None, "info.shot")
        _ = self.temperature

    @property
    def shot(self) -> int | None:
        """The shot it was trained for, where that is known."""
        return self.info.get("shot")

    @property
    def temperature(self) -> float | None:
        """The factor of the cosines it was trained with, where that is known; once it stood only in the settings."""
        settings = self.info.get("settings")
        early = settings.get("temperature") if isinstance(settings, dict) else None
        return fit(self.info.get("temperature", early), Temperature | None, "info.temperature")

    def to_json(self) -> dict[str, Any]:
        """As plain lists and dictionaries, the content of the file."""
        return {name: value for name, value in vars(self).items() if name != "folder"}

    @classmethod
    def read(cls, path: Path | str) -> AdapterInfo:
        """Read adapter.json of a folder."""
        return replace(super().read(path), folder=Path(path))
