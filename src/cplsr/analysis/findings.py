"""What an analysis found, and the folder that says so."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cplsr.analysis.bound import BoundTerms
from cplsr.analysis.cost import CostRow, draw_cost
from cplsr.analysis.drift import Drift
from cplsr.analysis.spectra import HeadChange
from cplsr.analysis.umap_view import Panel, draw_panels, panels_to_json
from cplsr.environment import installed_version
from cplsr.errors import InputError
from cplsr.files import check_writable, new_folder, write_json

if TYPE_CHECKING:
    from PIL.Image import Image

FINDINGS, UMAP, UMAP_PICTURE, COST_PICTURE = "analysis.json", "umap.json", "umap.png", "cost.png"
ATTENTION = "attention"


@dataclass(frozen=True)
class Measures:
    """One domain at one stage.

    within_between: infinite where all class means coincide.
    bound: terms by shot.
    proxy_distance: from the base domain; `None` without one, and for the base domain itself.
    attention_entropy, attention_entropy_rows: of the class token's row and of all rows, in nats, heads by layer.
    """

    within_between: float
    bound: dict[int, BoundTerms]
    proxy_distance: float | None
    attention_entropy: list[list[float]]
    attention_entropy_rows: list[list[float]]


@dataclass(frozen=True)
class DomainAnalysis:
    """One domain with the frozen backbone, and with the adapter if there is one, and how far that moved it."""

    images: int
    before: Measures
    after: Measures | None
    drift: Drift | None = None


@dataclass(frozen=True, eq=False)
class AttentionPicture:
    """Attention of the last layer laid over one image, and the file it goes to."""

    domain: str
    image: str
    file: str
    picture: Image


@dataclass(frozen=True, eq=False)
class Analysis:
    """Everything that was measured and what it depends on.

    adapter: name, kind, fingerprint and number of parameters; `None` where only the frozen backbone was looked at.
    heads: the most changed first; empty for adapters other than the coalescent projection.
    notes: remarks that belong beside the figures wherever they are shown.
    """

    backbone: dict[str, Any]
    adapter: dict[str, Any] | None
    versions: dict[str, str]
    settings: dict[str, Any]
    domains: dict[str, DomainAnalysis]
    heads: tuple[HeadChange, ...] = ()
    cost: tuple[CostRow, ...] = ()
    panels: tuple[Panel, ...] = ()
    pictures: tuple[AttentionPicture, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain lists and dictionaries, the content of `analysis.json`; what is infinite is null there."""
        return {
            "backbone": self.backbone,
            "adapter": self.adapter,
            "versions": self.versions,
            "settings": self.settings,
            "domains": {name: _plain(asdict(domain)) for name, domain in self.domains.items()},
            "heads": [_plain(asdict(head)) for head in self.heads],
            "cost": [asdict(row) for row in self.cost],
            "umap": UMAP if self.panels else None,
            "attention": [{"domain": p.domain, "image": p.image, "file": p.file} for p in self.pictures],
            "notes": list(self.notes),
        }

    def write(self, out: Path | str) -> None:
        """Write the folder, whole or not at all; an older analysis in its place is replaced."""
        check_output(out)
        with new_folder(out) as folder:
            write_json(folder / FINDINGS, self.to_json())
            if self.panels:
                write_json(folder / UMAP, panels_to_json(self.panels))
                draw_panels(self.panels, folder / UMAP_PICTURE)
            if self.pictures:
                (folder / ATTENTION).mkdir()
            for picture in self.pictures:
                picture.picture.save(folder / picture.file)
            if self.cost and installed_version("matplotlib") is not None:
                draw_cost(self.cost, folder / COST_PICTURE)


def check_output(out: Path | str) -> None:
    """Refuse a place that holds anything but an older analysis."""
    path = Path(out)
    ours = {FINDINGS, UMAP, UMAP_PICTURE, COST_PICTURE, ATTENTION}
    if path.exists() and (not path.is_dir() or {entry.name for entry in path.iterdir()} - ours):
        raise InputError(f"{path} holds other things than an analysis, so it is not overwritten: give another folder")
    check_writable(path)


def _plain(value: Any) -> Any:
    """Keys as the strings that json makes of them, and `None` for numbers that json cannot hold."""
    if isinstance(value, dict):
        return {str(key): _plain(content) for key, content in value.items()}
    if isinstance(value, list):
        return [_plain(content) for content in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
