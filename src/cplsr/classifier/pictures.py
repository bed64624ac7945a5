"""Whatever a user calls images, as one of three things: a domain to decode, pixels, or embeddings."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from numpy import ndarray
from PIL import Image
from torch import Tensor

from cplsr.backbones.backbone import Backbone
from cplsr.data.decode import decode
from cplsr.data.domain import Domain
from cplsr.data.image_file import read_image, require_size
from cplsr.data.listing import skipped_by_kind
from cplsr.data.open import open_domain
from cplsr.data.query_files import open_queries, unlabeled, unlabeled_files
from cplsr.errors import InputError

FORMS = (
    "a folder, paths, PIL images, uint8 arrays (height, width, 3), tensors as the backbone takes them, or embeddings "
    "(images, dim)"
)


@final
@dataclass(frozen=True)
class PictureReader:
    """Pictures that are in memory already, or paths among them."""

    pictures: tuple[Image.Image | ndarray | str, ...]

    def __call__(self, index: int) -> Image.Image:
        """Give picture number `index`."""
        picture = self.pictures[index]
        if isinstance(picture, Image.Image):
            require_size(picture)  # it may be open, but not decoded yet
            return picture
        return read_image(picture) if isinstance(picture, str) else Image.fromarray(picture)


def as_pictures(X: Any) -> Domain | Tensor | ndarray:
    """Bring images, in whatever form `FewShotClassifier` takes them, into one of three forms.

    A domain has files and pictures, to be decoded and preprocessed, a tensor pixels that go to the backbone as they are
    (uint8 as raw, floats as normalized ones), and a float array embeddings.

    Raises:
        InputError: If `X` is none of these, or empty.
    """
    if isinstance(X, Domain):
        return X
    if isinstance(X, (str, os.PathLike)):
        return told_skipped(X, open_queries(Path(X)))
    if isinstance(X, Tensor):
        return _from_tensor(X)
    if isinstance(X, Image.Image):
        return _in_memory([X])
    if hasattr(X, "__array__") and not isinstance(X, (list, tuple)):
        return _from_array(np.asarray(X))
    if isinstance(X, Sequence):
        return _from_sequence(X)
    raise InputError(f"images were given as {type(X).__name__}: give {FORMS}")


def labeled_pictures(X: Any, y: Any) -> tuple[Any, ndarray]:
    """Images and a label for each; without `y` the images must bring their labels, as a folder of folders does."""
    if y is None:
        if isinstance(X, (str, os.PathLike)):
            X = told_skipped(X, open_domain(X if isinstance(X, str) else Path(X)))
        if not isinstance(X, Domain):
            raise InputError("images were given without labels: give y, or a folder with one folder per class")
        return X, np.array(X.classes)[X.labels]
    pictures = as_pictures(X)
    labels = np.asarray(y)
    if labels.dtype.kind == "O":
        labels = np.array([str(label) for label in labels.tolist()])
    if labels.ndim != 1 or len(labels) != len(pictures):
        raise InputError(f"{len(pictures)} images were given with labels of shape {labels.shape}: give one label each")
    return pictures, labels


def told_skipped(source: Any, domain: Domain) -> Domain:
    """The domain, after a warning of what was passed over when it was opened."""
    if domain.skipped:
        warnings.warn(skipped_by_kind(source, domain.skipped), stacklevel=5)
    return domain


def unlabeled_pictures(names: Sequence[str], pictures: Sequence[Image.Image | ndarray | str]) -> Domain:
    """Pictures in memory, or paths among them, as a domain of one nameless class."""
    return unlabeled("images", [f"{name}?" for name in names], PictureReader(tuple(pictures)))


def picture_names(pictures: Domain | Tensor | ndarray) -> tuple[str, ...]:
    """Name each image for messages: its path, or its number."""
    if isinstance(pictures, Domain):
        return tuple(pictures.image_name(index) for index in range(len(pictures)))
    return tuple(f"image {number}" for number in range(len(pictures)))


def check_tunable(pictures: Domain | Tensor | ndarray) -> None:
    """Raise `InputError` for what holds no raw pixels: a classifier tuned on its images needs them."""
    raw = pictures.vectors is None if isinstance(pictures, Domain) else pictures.dtype == torch.uint8
    if not raw:
        what = "normalized pixels" if isinstance(pictures, Tensor) else "embeddings"
        raise InputError(f"{what} were given to a classifier that is tuned on its images: give images, or uint8 pixels")


def _from_tensor(X: Tensor) -> Tensor | ndarray:
    if X.ndim == 2 and X.is_floating_point():
        return X.detach().cpu().float().numpy()
    if X.ndim == 3:
        X = X[None]
    if X.ndim != 4 or X.shape[1] != 3 or not (X.dtype == torch.uint8 or X.is_floating_point()):
        raise InputError(
            f"a tensor of shape {tuple(X.shape)} and type {X.dtype} was given: give uint8 or normalized float pixels "
            "(images, 3, size, size), or float embeddings (images, dim)"
        )
    return X


def _from_array(X: ndarray) -> Domain | ndarray | Tensor:
    if X.dtype.kind in "OUT" and X.ndim == 1:
        return _from_sequence(X.tolist())
    if X.ndim == 2 and X.dtype.kind == "f":
        return X
    if X.ndim == 4:
        return _in_memory(list(X))
    if X.ndim == 3 and X.shape[2] in (3, 4):
        return _in_memory([X])
    raise InputError(f"an array of shape {X.shape} and type {X.dtype} was given: give {FORMS}")


def _from_sequence(X: Sequence[Any]) -> Domain | Tensor | ndarray:
    if len(X) == 0:
        raise InputError(f"there are no images: give {FORMS}")
    if all(isinstance(item, (str, os.PathLike)) for item in X):
        return unlabeled_files("images", [os.fspath(item) for item in X])
    if all(isinstance(item, Tensor) for item in X):
        if len({item.shape for item in X}) > 1:
            raise InputError("the tensors differ in shape: give all of them in the backbone's size")
        return _from_tensor(torch.stack(list(X)))
    if all(isinstance(item, (ndarray, list)) and np.ndim(item) == 1 for item in X):
        return _from_array(np.asarray(X, dtype=np.float64))
    return _in_memory(X)


def _in_memory(X: Sequence[Any]) -> Domain:
    pictures = tuple(_picture(item, number) for number, item in enumerate(X))
    names = [item if isinstance(item, str) else f"image {number}" for number, item in enumerate(pictures)]
    return unlabeled_pictures(names, pictures)


def _picture(item: Any, number: int) -> Image.Image | ndarray | str:
    if isinstance(item, Image.Image):
        return item
    if isinstance(item, (str, os.PathLike)):
        return os.fspath(item)
    if isinstance(item, ndarray) and item.dtype == np.uint8:
        if item.ndim == 2 or (item.ndim == 3 and item.shape[2] in (3, 4)):
            return item
        if item.ndim == 3 and item.shape[2] == 1:
            return item[:, :, 0]
    what = f"{item.dtype} array of shape {item.shape}" if isinstance(item, ndarray) else type(item).__name__
    raise InputError(f"image {number} is a {what}: give a path, a PIL image, or a uint8 array (height, width, 3)")


def single_pixels(backbone: Backbone, image: Any) -> Tensor:
    """Bring one image, and no more, into the form the backbone takes: a tensor (1, 3, size, size)."""
    pictures = as_pictures(image)
    if isinstance(pictures, ndarray) or len(pictures) != 1:
        what = "an embedding" if isinstance(pictures, ndarray) else f"{len(pictures):,} images"
        raise InputError(f"{what} was given where one image was wanted: give a path, a PIL image or a uint8 array")
    if isinstance(pictures, Tensor):
        return pictures
    return next(iter(decode(pictures, backbone.image_size, workers=0, strict=True))).pixels
