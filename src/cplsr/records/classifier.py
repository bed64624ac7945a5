"""What a stored classifier is, apart from its tensors: classifier.json."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Required, TypedDict

from cplsr.declared import read_record
from cplsr.files import write_json
from cplsr.records.parts import BackboneInfo
from cplsr.settings.backbone import ClassifierPooling

DESCRIPTION = "classifier.json"
ClassKind = Literal["text", "integer", "real", "truth"]
_FORMAT = 2
_NEEDED = ("mean", "std", "precision", "position_interpolation")


HeadInfo = dict[str, str | int | float | bool]
"""A head's `name` and its options."""


class FittedWith(TypedDict, total=False):
    """Settings of a classifier; the first format had the kind of prototype instead of head and pooling."""

    temperature: Required[float | Literal["auto"]]
    head: str | HeadInfo
    pooling: ClassifierPooling
    prototype: Literal["mean", "mean_of_normalized"]


class Chosen(TypedDict):
    """The head that was fitted, which blocks it reads (see `Reading`), and why."""

    head: HeadInfo
    decay: float | None
    reason: str


class FittedAdapter(TypedDict):
    """The adapter that is stored beside it."""

    kind: str
    fingerprint: str


@dataclass(frozen=True)
class ClassifierInfo:
    """Classes, settings, backbone and adapter of a classifier, and a checksum of its tensors.

    classes, class_kind: labels as the user gave them, and of which type. counts: images of each class.
    support_names: what the images it was fitted on are called. choice: `None` in the first format.
    tuned: with which options the adapter was tuned on those images; `None`: it was not.
    """

    classes: list[str | int | float | bool]
    class_kind: ClassKind
    counts: list[int]
    temperature: float
    settings: FittedWith
    backbone: BackboneInfo
    adapter: FittedAdapter | None
    support_names: tuple[str, ...]
    fingerprint: str
    versions: dict[str, str]
    sha256: str
    choice: Chosen | None = None
    tuned: dict[str, Any] | None = None
    format: int = _FORMAT

    def __post_init__(self) -> None:
        """Refuse formats of later versions, and a backbone of which too little is said to load it."""
        if not 1 <= self.format <= _FORMAT:
            raise ValueError(f"its format is {self.format}, this version reads 1 to {_FORMAT}: update cplsr")
        if missing := [name for name in _NEEDED if name not in self.backbone]:
            raise ValueError(f"the {missing[0]} of the backbone is missing")

    def write(self, folder: Path) -> None:
        """Write classifier.json, whole or not at all."""
        content = asdict(self)
        write_json(folder / DESCRIPTION, {"format": content.pop("format"), **content})

    @classmethod
    def read(cls, folder: Path) -> ClassifierInfo:
        """Read classifier.json of a folder."""
        return read_record(folder / DESCRIPTION, cls, "a classifier (written by `FewShotClassifier.save`)")
