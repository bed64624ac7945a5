"""Embeddings in two dimensions by UMAP, before and after training, in the paper's layout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float64, Int64
from numpy import ndarray

from cplsr.environment import installed_version
from cplsr.errors import InputError
from cplsr.records.analysis import Panel, Stage

NEIGHBORS = 15
FEWEST_IMAGES = 5


def require_umap() -> None:
    """Say what to install where umap-learn or matplotlib is missing; nothing heavy is imported for that."""
    missing = [name for name in ("umap-learn", "matplotlib") if installed_version(name) is None]
    if missing:
        raise InputError(f"the UMAP view needs {' and '.join(missing)}: pip install 'cplsr[viz]'")


def coordinates(vectors: Float[ndarray, "images dim"], *, seed: int = 0) -> Float64[ndarray, "images 2"]:
    """Two coordinates for every embedding, by cosine distance; the same in every run."""
    if len(vectors) < FEWEST_IMAGES:
        raise InputError(f"UMAP of {len(vectors)} images was asked for: give at least {FEWEST_IMAGES}")
    try:
        from umap import UMAP
    except ImportError as error:
        raise InputError("the UMAP view needs umap-learn: pip install 'cplsr[viz]'") from error
    neighbors = min(NEIGHBORS, len(vectors) - 1)
    model = UMAP(n_components=2, n_neighbors=neighbors, metric="cosine", random_state=seed, n_jobs=1)
    return np.asarray(model.fit_transform(vectors), dtype=np.float64)


def make_panel(
    domain: str,
    stage: Stage,
    classes: tuple[str, ...],
    vectors: Float[ndarray, "images dim"],
    labels: Int64[ndarray, "images"],
) -> Panel:
    """Fit UMAP to one domain at one stage."""
    points = coordinates(vectors)
    x, y = (tuple(points[:, axis].tolist()) for axis in (0, 1))
    return Panel(domain, stage, classes, tuple(labels.tolist()), x, y)


def draw_panels(panels: Sequence[Panel], path: Path) -> None:
    """One row per domain: before on the left, after on the right; classes by color."""
    import matplotlib
    from matplotlib.figure import Figure

    domains = list(dict.fromkeys(panel.domain for panel in panels))
    stages = list(dict.fromkeys(panel.stage for panel in panels))
    figure = Figure(figsize=(5 * len(stages), 4.6 * len(domains)), layout="constrained")
    grid = figure.subplots(len(domains), len(stages), squeeze=False)
    for panel in panels:
        axes = grid[domains.index(panel.domain), stages.index(panel.stage)]
        few = len(panel.classes) <= 20
        colors = matplotlib.colormaps["tab20" if few else "gist_ncar"]
        scale = 20 if few else len(panel.classes)
        shades = [colors((label + 0.5) / scale) for label in panel.labels]
        area = min(25.0, max(3.0, 5000 / len(panel.labels)))  # of a point, so that many do not hide each other
        axes.scatter(panel.x, panel.y, s=area, linewidths=0, c=shades)
        axes.set_title(f"{panel.domain} – {panel.stage}", parse_math=False)
        axes.set_xticks([])
        axes.set_yticks([])
    figure.savefig(path, dpi=150)
