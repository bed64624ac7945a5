"""What a stored classifier is, apart from its tensors: classifier.json."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NotRequired, Required, TypedDict

from cplsr.records.parts import BackboneInfo
from cplsr.records.record import Record
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
    """The head that was fitted, which blocks it reads (see `Reading`; at first without favor and tilt), and why."""

    head: HeadInfo
    decay: float | None
    favor: NotRequired[float]
    tilt: NotRequired[float]
    reason: str


class FittedAdapter(TypedDict):
    """The adapter that is stored beside it."""

    kind: str
    fingerprint: str


@dataclass(frozen=True)
class ClassifierInfo(Record):
    """Classes, settings, backbone and adapter of a classifier, and a checksum of its tensors.

    Attributes:
        format: Of the file and the tensors beside it.
        classes: Labels as the user gave them.
        temperature: Factor of the scores before the softmax.
        support_names: What the images it was fitted on are called.
        fingerprint: Hash of all that its answers depend on.
        sha256: Of the file of tensors.
        choice: The head that was fitted, and why; `None` in the first format.
        tuned: With which options the adapter was tuned on those images; `None`: it was not.
    """

    file: ClassVar = DESCRIPTION
    what: ClassVar = "a classifier (written by `FewShotClassifier.save`)"

    format: int = field(default=_FORMAT, kw_only=True)
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

    def __post_init__(self) -> None:
        """Refuse formats of later versions, and a backbone of which too little is said to load it."""
        if not 1 <= self.format <= _FORMAT:
            raise ValueError(f"its format is {self.format}, this version reads 1 to {_FORMAT}: update cplsr")
        if missing := [name for name in _NEEDED if name not in self.backbone]:
            raise ValueError(f"the {missing[0]} of the backbone is missing")
