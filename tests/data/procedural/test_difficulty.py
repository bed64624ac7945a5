"""The targets are neither trivial nor hopeless: pixels know little, the embedded backbone more, and there is room."""

import numpy as np
import pytest
import torch

from cplsr import load_backbone
from cplsr.data.preprocess import preprocess
from cplsr.data.procedural import make_domain
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.episodes.sampling import Episodes, EpisodeSampler
from cplsr.evaluation.scoring import Scoring

CLASSES = 12
"""Of each domain, at most: drawing them is what takes time."""


def nearest_mean(pixels: np.ndarray, episodes: Episodes) -> float:
    """Euclidean nearest mean on raw pixels."""
    right = []
    for support, query in zip(episodes.support, episodes.query, strict=True):
        centers = pixels[support].mean(axis=1)
        distances = ((pixels[query][:, :, None] - centers) ** 2).sum(-1)
        right.append((distances.argmin(-1) == np.arange(len(centers))[:, None]).mean())
    return 100 * float(np.mean(right))


@pytest.mark.parametrize("name", ["radiograph", "dermoscopy", "landcover", "leaf"])
def test_frozen_features_beat_raw_pixels_and_leave_room(name):
    from PIL import Image

    domain = make_domain(name, images_per_class=20)
    some = np.flatnonzero(domain.labels < CLASSES)
    images = [domain.render(int(index)) for index in some]
    episodes = EpisodeSampler(domain.labels[some], way=5, shot=5, query=15, seed=0).draw(150)
    raw = nearest_mean(np.stack(images).reshape(len(images), -1).astype(np.float32), episodes)
    backbone = load_backbone("embedded")
    pixels = torch.from_numpy(np.stack([preprocess(Image.fromarray(image), backbone.image_size) for image in images]))
    with torch.inference_mode():
        vectors = backbone(pixels).numpy()
    frozen = 100 * Scoring(vectors).accuracies(episodes, Prototypes()).mean()
    assert raw < 60
    assert raw + 10 <= frozen < 95
