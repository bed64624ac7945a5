"""Two-dimensional views: what is asked of umap-learn, and the panels made of it."""

import json
import sys
import types
from dataclasses import asdict

import numpy as np
import pytest

from cplsr.analysis import umap_view
from cplsr.analysis.umap_view import coordinates, draw_panels, make_panel, require_umap
from cplsr.errors import InputError
from cplsr.records.analysis import Panel


@pytest.fixture
def stand_in(monkeypatch):
    """A module in place of umap-learn, whose import takes long; it remembers what it was asked."""
    asked = []

    class UMAP:
        def __init__(self, **options):
            asked.append(options)

        def fit_transform(self, vectors):
            return vectors[:, :2].astype(np.float32)

    monkeypatch.setitem(sys.modules, "umap", types.SimpleNamespace(UMAP=UMAP))
    return asked


def test_umap_is_asked_for_a_repeatable_view_by_cosine(stand_in):
    coordinates(np.ones((30, 4)))
    coordinates(np.ones((8, 4)), seed=3)
    fixed = {"n_components": 2, "metric": "cosine", "n_jobs": 1}
    assert stand_in == [
        {**fixed, "n_neighbors": 15, "random_state": 0},
        {**fixed, "n_neighbors": 7, "random_state": 3},
    ]


def test_a_panel_holds_plain_numbers_in_the_order_of_the_images(stand_in):
    vectors = np.arange(18, dtype=np.float32).reshape(6, 3)
    panel = make_panel("leaf", "after", ("a", "b"), vectors, np.array([0, 1, 0, 1, 0, 1]))
    x, y = (0.0, 3.0, 6.0, 9.0, 12.0, 15.0), (1.0, 4.0, 7.0, 10.0, 13.0, 16.0)
    assert panel == Panel("leaf", "after", ("a", "b"), (0, 1, 0, 1, 0, 1), x, y)
    content = json.loads(json.dumps(asdict(panel)))
    assert content["x"] == [0, 3, 6, 9, 12, 15]
    assert set(content) == {"domain", "stage", "classes", "labels", "x", "y"}


def test_too_few_images_are_refused(stand_in):
    with pytest.raises(InputError, match="at least 5"):
        coordinates(np.ones((4, 3)))


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(InputError, match=r"pip install 'cplsr\[viz\]'"):
        coordinates(np.ones((9, 3)))
    monkeypatch.setattr(umap_view, "installed_version", lambda name: None if name == "umap-learn" else "1")
    with pytest.raises(InputError, match=r"needs umap-learn: pip install 'cplsr\[viz\]'"):
        require_umap()
    monkeypatch.setattr(umap_view, "installed_version", lambda name: "1")
    require_umap()


@pytest.mark.parametrize("classes", [3, 38])
def test_the_picture_has_a_row_for_each_domain_and_a_column_for_each_stage(tmp_path, classes):
    from PIL import Image

    names = tuple(f"class {c}" for c in range(classes))
    labels = tuple(range(classes))
    points = tuple(float(c) for c in range(classes))

    def size(panels):
        draw_panels(panels, tmp_path / "umap.png")
        with Image.open(tmp_path / "umap.png") as image:
            return image.size

    def panels(domains, stages):
        return [Panel(domain, stage, names, labels, points, points) for domain in domains for stage in stages]

    width, height = size(panels(["$a_b"], ["before"]))
    assert size(panels(["a", "b", "c"], ["before", "after"])) == (2 * width, 3 * height)


@pytest.mark.soak
def test_umap_itself_separates_two_clouds_and_repeats_itself():
    generator = np.random.default_rng(0)
    vectors = np.concatenate([generator.normal(size=(30, 8)) + shift for shift in (6, -6)])
    first, second = coordinates(vectors), coordinates(vectors)
    assert np.array_equal(first, second)
    gap = np.linalg.norm(first[:30].mean(0) - first[30:].mean(0))
    assert gap > 2 * max(first[:30].std(0).max(), first[30:].std(0).max())
