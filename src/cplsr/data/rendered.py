"""The procedural domains as `Domain`s: images that are drawn when they are read."""

from __future__ import annotations

import hashlib
import importlib.resources
from functools import cache, partial

from PIL import Image

from cplsr.data.domain import Domain
from cplsr.data.procedural import DOMAINS, ProceduralDomain, make_domain


def _draw(pictures: ProceduralDomain, index: int) -> Image.Image:
    return Image.fromarray(pictures.render(index))


def open_procedural(name: str, *, split: str | None = None, seed: int = 0) -> Domain:
    """Open a procedural domain: `base`, `radiograph`, `dermoscopy`, `landcover` or `leaf`; nothing is drawn yet.

    The split is `train` by default; `base` also has `val`. Another seed gives other pictures of the same classes.

    Raises:
        InputError: there is no such domain or split.
    """
    split = split or "train"
    pictures = make_domain(name, split, seed=seed)
    classes, labels = pictures.classes, pictures.labels
    numbers = range(pictures.images_per_class)
    has_validation = split == "train" and "val" in DOMAINS[name].splits
    return Domain(
        name=name if split == "train" else f"{name}@{split}",
        classes=classes,
        labels=labels,
        identities=tuple(
            f"{name}/{label}/{number}?{seed}-{_code_version()}" for label in classes for number in numbers
        ),
        reader=partial(_draw, pictures),
        validation=partial(open_procedural, name, split="val", seed=seed) if has_validation else None,
    )


@cache
def _code_version() -> str:
    """Hash of the code that draws: another way of drawing gives other images, which must not meet old embeddings."""
    digest = hashlib.blake2b(digest_size=8)
    files = importlib.resources.files("cplsr.data.procedural").iterdir()
    for source in sorted((file for file in files if file.name.endswith(".py")), key=lambda file: file.name):
        digest.update(source.read_bytes())
    return digest.hexdigest()
