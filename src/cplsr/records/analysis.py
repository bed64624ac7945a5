"""What an analysis found: the folder with analysis.json, umap.json and pictures of attention."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypedDict

import msgspec

from cplsr.errors import InputError
from cplsr.records.parts import BackboneInfo, Count, NullIsInfinite, OrInfinite
from cplsr.records.record import Record

FINDINGS, UMAP, ATTENTION = "analysis.json", "umap.json", "attention"
Stage = Literal["before", "after"]


@dataclass(frozen=True)
class HeadChange(NullIsInfinite):
    """One head's C: its distance from the identity, its spectrum, and how far it is from a symmetric form.

    Attributes:
        distance: ‖C − I‖_F.
        condition: The largest over the smallest, infinite for a singular C.
        asymmetry: ‖C − Cᵀ‖_F / ‖C + Cᵀ‖_F; 0 for a symmetric C, infinite for an antisymmetric one.
        entropy_change: Of the class token's attention, in nats, where it was measured.
    """

    layer: int
    head: int
    distance: float
    singular_min: float
    singular_max: float
    condition: OrInfinite
    asymmetry: OrInfinite
    entropy_change: float | None = None


@dataclass(frozen=True)
class CostRow:
    """One adapter at one image size, in a forward pass without gradients.

    `flops` and `seconds` are per image; the latter `None` where they were not measured or it did not fit into memory.
    """

    adapter: str
    image_size: Count
    tokens: Count
    parameters: int
    flops: int
    seconds: float | None = None


@dataclass(frozen=True)
class Panel:
    """One domain at one stage in two dimensions.

    Attributes:
        labels: The class of each image, as a position in `classes`.
    """

    domain: str
    stage: Stage
    classes: tuple[str, ...]
    labels: tuple[int, ...]
    x: tuple[float, ...]
    y: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse points that lack a coordinate or a class."""
        if not len(self.labels) == len(self.x) == len(self.y):
            raise ValueError(f"a panel has {len(self.labels)} labels, {len(self.x)} x and {len(self.y)} y")
        if not all(0 <= label < len(self.classes) for label in self.labels):
            raise ValueError(f"a label of a panel is none of its {len(self.classes)} classes")


@dataclass(frozen=True)
class BoundTerms:
    """The terms for one shot K and way N.

    Attributes:
        V_tr: Unequal spread of the classes (Eq. 15).
        V_wit: Spread within classes (Eq. 16).
        Ed2: Distances between classes (Eq. 17).
        base_term: Made of all (Eq. 14).
        tr_sigma: tr Σ, between the classes.
        tr_sigma_tau: tr Σ_τ, within them.
    """

    V_tr: float
    V_wit: float
    Ed2: float
    base_term: float
    tr_sigma: float
    tr_sigma_tau: float


@dataclass(frozen=True)
class Measures(NullIsInfinite):
    """One domain at one stage.

    Attributes:
        within_between: Spread within classes over that between them; infinite where all class means coincide.
        proxy_distance: From the base domain; `None` without one, and for the base domain itself.
        attention_entropy: Of the class token's row, in nats, heads by layer.
        attention_entropy_rows: Of all rows.
    """

    within_between: OrInfinite
    bound: dict[int, BoundTerms]
    proxy_distance: float | None
    attention_entropy: list[list[float]]
    attention_entropy_rows: list[list[float]] = field(default_factory=list)


@dataclass(frozen=True)
class Drift(NullIsInfinite):
    """How far an adapter moved the embeddings of a domain.

    Attributes:
        cosine: Of an image's embeddings before and after, averaged; 1 where only lengths changed.
        shift: Of the mean of all embeddings, in units of their spread before, √tr Σ: what all images moved in common,
            and so what prototypes of that domain do not need. Infinite where there was no spread.
    """

    cosine: float
    shift: OrInfinite


@dataclass(frozen=True)
class DomainAnalysis:
    """One domain with the frozen backbone, with the adapter if there is one, and how far that moved it."""

    images: int
    before: Measures
    after: Measures | None
    drift: Drift | None = None


@dataclass(frozen=True)
class AttentionPicture:
    """Attention of the last layer laid over one image; `file` is its place in the folder of the analysis."""

    domain: str
    image: str
    file: str
    png: bytes = b""


class AnalyzedAdapter(TypedDict, total=False):
    """The adapter that was looked at."""

    name: str
    kind: str
    fingerprint: str
    parameters: int


@dataclass(frozen=True)
class _Panels(Record):
    """The content of umap.json."""

    what: ClassVar = "part of an analysis (written by `cplsr analyze`)"

    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Analysis(Record):
    """Everything that was measured and what it depends on.

    Attributes:
        adapter: `None` where only the frozen backbone was looked at.
        settings: As `AnalysisSettings` had them, and the data.
        domains: By name, the base domain first.
        heads: The most changed first; empty for adapters other than the coalescent projection.
        notes: Remarks that belong beside the figures wherever they are shown.
        panels: The content of `umap`.
    """

    file: ClassVar = FINDINGS
    what: ClassVar = "an analysis (written by `cplsr analyze`)"
    tells_paths: ClassVar = ("backbone", "settings", "notes")

    backbone: BackboneInfo
    adapter: AnalyzedAdapter | None
    versions: dict[str, str]
    settings: dict[str, Any]
    domains: dict[str, DomainAnalysis]
    heads: tuple[HeadChange, ...]
    cost: tuple[CostRow, ...]
    umap: str | None
    attention: tuple[AttentionPicture, ...]
    notes: tuple[str, ...]
    panels: tuple[Panel, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain lists and dictionaries, the content of `analysis.json`; what is infinite is null there."""
        content = {**vars(self.public())}
        del content["panels"]
        content["attention"] = [{"domain": p.domain, "image": p.image, "file": p.file} for p in self.attention]
        return msgspec.json.decode(msgspec.json.encode(content))

    def write(self, path: Path | str) -> None:
        """Fill a new folder."""
        super().write(path)
        folder = Path(path)
        if self.umap:
            _Panels(self.panels).write(folder / self.umap)
        for picture in self.attention:
            (folder / picture.file).parent.mkdir(exist_ok=True)
            (folder / picture.file).write_bytes(picture.png)

    @classmethod
    def read(cls, path: Path | str) -> Analysis:
        """Read a folder: analysis.json and the files that it names."""
        analysis, folder = super().read(path), Path(path)
        panels = _Panels.read(_inside(folder, analysis.umap)).panels if analysis.umap else ()
        pictures = tuple(replace(each, png=_png(_inside(folder, each.file))) for each in analysis.attention)
        return replace(analysis, panels=panels, attention=pictures)

    def files(self) -> list[str]:
        """Names of the files that were read."""
        return [*([self.umap] if self.umap else []), *(picture.file for picture in self.attention), FINDINGS]


def _inside(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise InputError(f"{folder / FINDINGS} names the file {name}, which is outside its folder: run it again")
    return path


def _png(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): run `cplsr analyze` again") from None
    if not content.startswith(b"\x89PNG\r\n\x1a\n"):
        raise InputError(f"{path} is not a PNG picture: run `cplsr analyze` again")
    return content
