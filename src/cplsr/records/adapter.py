"""What a stored adapter is: adapter.json."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from cplsr.declared import fit, read_record
from cplsr.files import write_json
from cplsr.records.parts import BackboneInfo
from cplsr.settings.numbers import Temperature

DESCRIPTION = "adapter.json"
_FORMAT = 1


@dataclass(frozen=True)
class AdapterInfo:
    """Kind and options of an adapter, the backbone it was trained on, and a checksum of its tensors.

    info: whatever was worth keeping with it: the shot it was trained for, settings, metrics.
    folder: where it is; not in the file.
    """

    kind: str
    options: dict[str, Any]
    backbone: BackboneInfo
    info: dict[str, Any]
    versions: dict[str, str]
    fingerprint: str
    sha256: str
    format: int = _FORMAT
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

    def write(self, folder: Path) -> None:
        """Write adapter.json, whole or not at all."""
        content = asdict(self)
        del content["folder"]
        write_json(folder / DESCRIPTION, {"format": content.pop("format"), **content})

    @classmethod
    def read(cls, folder: Path) -> AdapterInfo:
        """Read adapter.json of a folder."""
        return replace(read_record(folder / DESCRIPTION, cls, "an adapter (written by `cplsr train`)"), folder=folder)
