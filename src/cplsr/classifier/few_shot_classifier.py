"""FewShotClassifier: a few images of each class in, labels with meaningful confidence out."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Float64
from numpy import ndarray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from cplsr.backbones.backbone import Backbone
from cplsr.classifier.backbone_choice import adapter_kind, prepared_backbone, without_adapter
from cplsr.classifier.explanation import Explanation, Neighbor, as_bytes, class_token_attention, nearest, overlay
from cplsr.classifier.pictures import Embedded, as_pictures, embed_batches, picture_names, single_pixels
from cplsr.classifier.prediction import Prediction, predictions_of
from cplsr.classifier.prototype_classifier import PrototypeClassifier, check_rejection, named
from cplsr.classifier.support_report import SupportReport, report_on_support
from cplsr.data.domain import Domain
from cplsr.data.open import open_domain
from cplsr.errors import InputError
from cplsr.evaluation.cache import EmbeddingKey


class FewShotClassifier(ClassifierMixin, BaseEstimator):
    """Classify images from a few examples of each class: frozen transformer, prototypes, calibrated confidence.

    backbone: what `load_backbone` takes, or a loaded `Backbone` (left as it is). Default: DINO ViT-S/16 if it is in the
        local hub cache or can be downloaded, else the small embedded one, with a warning.
    adapter: adapter folder, run folder or hub id; `"frozen"` for none. Default: the one a loaded backbone carries, or
        the one packaged with the embedded backbone.
    temperature, prototype: see `PrototypeClassifier`.
    image_size, device, precision: see `load_backbone`; for a loaded backbone they are its own.
    batch_size, workers: images embedded at a time, and processes that decode them.

    Images are, in every method: a folder, one path, a list of paths, PIL images or uint8 arrays (height, width, 3), a
    `Domain`, pixels as the backbone takes them (tensors), or embeddings (2-D floats of the backbone's width).

    After fitting: `classes_`, `counts_`, `prototypes_`, `unit_prototypes_`, `temperature_`; `backbone_` with its
    adapter, `adapter_kind_`; `head_`, the `PrototypeClassifier` inside; `support_names_`; `skipped_`, the support
    images that could not be read.
    """

    def __init__(
        self,
        backbone: str | Path | Backbone | None = None,
        adapter: str | Path | None = None,
        *,
        temperature: Any = "auto",
        prototype: Any = "mean",
        image_size: int | None = None,
        device: str = "auto",
        precision: str = "fp32",
        batch_size: int = 64,
        workers: int | None = None,
    ) -> None:
        self.backbone = backbone
        self.adapter = adapter
        self.temperature = temperature
        self.prototype = prototype
        self.image_size = image_size
        self.device = device
        self.precision = precision
        self.batch_size = batch_size
        self.workers = workers

    def fit(self, X: Any, y: Any = None) -> FewShotClassifier:
        """Learn from support images; without `y`, X is labeled itself: a folder per class, or what `open_domain` takes.

        Any number of images per class will do, one included. Images that cannot be read are left out with a warning.
        """
        pictures, labels = _labeled(X, y)
        self.backbone_ = prepared_backbone(
            self.backbone, self.adapter, image_size=self.image_size, device=self.device, precision=self.precision
        )
        self.adapter_kind_ = adapter_kind(self.backbone_)
        support = self._embed_support(pictures, labels)
        self.head_ = PrototypeClassifier(self.temperature, self.prototype)
        self.head_.fit(support.vectors.astype(np.float64), labels[support.indices])
        self.frozen_support_ = support.frozen
        names = picture_names(pictures)
        self.support_names_ = tuple(names[index] for index in support.indices)
        self.skipped_ = tuple((names[index], reason) for index, reason in support.failed)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> FewShotClassifier:
        """Learn more images, of classes old or new; what was learned before stays."""
        if not hasattr(self, "head_"):
            return self.fit(X, y)
        pictures, labels = _labeled(X, y)
        self._learn(pictures, labels)
        return self

    def add_class(self, name: Any, images: Any) -> FewShotClassifier:
        """Add a class from its images (a folder: all images in it); the other classes stay as they are."""
        check_is_fitted(self)
        if name in self.classes_.tolist():
            raise InputError(f"there is a class {name!r} already: give more images of it to partial_fit, or remove it")
        pictures = as_pictures(images)
        self._learn(pictures, np.array([name] * len(pictures)))
        return self

    def remove_class(self, name: Any) -> FewShotClassifier:
        """Forget a class and its images; the other classes stay as they are."""
        check_is_fitted(self)
        kept = self.classes_[self.head_.support_labels_] != name
        self.head_.remove_class(name)
        self.support_names_ = tuple(text for text, keep in zip(self.support_names_, kept, strict=True) if keep)
        if self.frozen_support_ is not None:
            self.frozen_support_ = self.frozen_support_[kept]
        return self

    def predict(self, X: Any, reject_below: float | None = None) -> ndarray:
        """The class of each image, or `unknown` where the likeliest class is less likely than `reject_below`."""
        check_is_fitted(self)
        return self.head_.predict(self._vectors(X), reject_below)

    def predict_proba(self, X: Any) -> Float64[ndarray, "images classes"]:
        """Probabilities of the classes, in the order of `classes_`."""
        check_is_fitted(self)
        return self.head_.predict_proba(self._vectors(X))

    def out_of_domain_score(self, X: Any) -> Float64[ndarray, "images"]:
        """How unusual each image is among the support images, 0 to 1; see `PrototypeClassifier`."""
        check_is_fitted(self)
        return self.head_.out_of_domain_score(self._vectors(X))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy; without `y`, X is labeled itself, as in `fit`."""
        check_is_fitted(self)
        pictures, labels = _labeled(X, y)
        return float(accuracy_score(labels, self.predict(pictures), sample_weight=sample_weight))

    def predictions(self, X: Any, *, reject_below: float | None = None) -> Iterator[list[Prediction]]:
        """Answers batch by batch, in order, one for every image; a bad image is an answer with an error.

        Memory does not depend on the number of images.
        """
        check_is_fitted(self)
        check_rejection(reject_below, self.classes_)
        pictures = as_pictures(X)
        names = picture_names(pictures)
        for batch in self._batches(pictures, "classifying"):
            answers = predictions_of(
                self.head_, [names[index] for index in batch.indices], batch.vectors.astype(np.float64), reject_below
            )
            by_index = dict(zip(batch.indices.tolist(), answers, strict=True))
            by_index |= {index: Prediction(names[index], error=reason) for index, reason in batch.failed}
            yield [by_index[index] for index in sorted(by_index)]

    def embed(self, X: Any) -> Float32[ndarray, "images dim"]:
        """Embeddings of images; the classifier's methods take them in place of the images. A bad image is an error."""
        check_is_fitted(self)
        pictures = as_pictures(X)
        batches = list(self._batches(pictures, "embedding"))
        failed = [failure for batch in batches for failure in batch.failed]
        if failed:
            index, reason = failed[0]
            raise InputError(
                f"{picture_names(pictures)[index]} cannot be read ({reason}); {len(failed):,} of {len(pictures):,} "
                "images are like that: leave them out, or use predictions(), which answers with an error for each"
            )
        return np.concatenate([batch.vectors for batch in batches])

    def evaluate_support(self) -> SupportReport:
        """What to expect, from the support images alone: each is judged by the others."""
        check_is_fitted(self)
        return report_on_support(self.head_, self.support_names_, self.frozen_head())

    def frozen_head(self) -> PrototypeClassifier | None:
        """The same classifier on the backbone without its adapter; `None` where there is none, or nothing to go by."""
        check_is_fitted(self)
        if self.frozen_support_ is None:
            return None
        labels = self.classes_[self.head_.support_labels_]
        return PrototypeClassifier(self.temperature, self.prototype).fit(self.frozen_support_, labels)

    def explain(self, image: Any, neighbors: int = 5) -> Explanation:
        """Why one image gets its label: the nearest support images, and where the backbone looks."""
        check_is_fitted(self)
        pixels = single_pixels(self.backbone_, image)
        with torch.inference_mode():
            vector = self.backbone_(pixels.to(self.backbone_.device)).float().cpu().numpy().astype(np.float64)
        answer = predictions_of(self.head_, ["image"], vector, None)[0]
        labels = [str(label) for label in self.classes_[self.head_.support_labels_].tolist()]
        attention = class_token_attention(self.backbone_, pixels)
        return Explanation(
            label=answer.label,
            confidence=answer.confidence or 0.0,
            out_of_domain=answer.out_of_domain,
            neighbors=tuple(
                Neighbor(self.support_names_[position], labels[position], cosine)
                for position, cosine in nearest(vector[0], self.head_.support_, neighbors)
            ),
            attention=attention,
            overlay=overlay(as_bytes(self.backbone_, pixels[0]), attention),
        )

    def save(self, path: str | Path) -> Path:
        """Write the fitted classifier to a folder, whole or not at all; no pickle, a megabyte or so."""
        from cplsr.classifier.store import save_classifier

        check_is_fitted(self)
        return save_classifier(self, path)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        backbone: str | Path | Backbone | None = None,
        device: str = "auto",
        batch_size: int = 64,
        workers: int | None = None,
    ) -> FewShotClassifier:
        """Read a classifier that `save` wrote. `backbone` says where its backbone is now, if it has moved."""
        from cplsr.classifier.store import load_classifier

        return load_classifier(cls, path, backbone=backbone, device=device, batch_size=batch_size, workers=workers)

    @property
    def classes_(self) -> ndarray:
        """The classes, sorted."""
        return self.head_.classes_

    @property
    def counts_(self) -> ndarray:
        """Support images of each class."""
        return self.head_.counts_

    @property
    def prototypes_(self) -> Float64[ndarray, "classes dim"]:
        """Mean of each class's embeddings."""
        return self.head_.prototypes_

    @property
    def unit_prototypes_(self) -> Float64[ndarray, "classes dim"]:
        """The prototypes scaled to length one: probabilities are softmax(temperature_ · unit embedding · them)."""
        return self.head_.unit_prototypes_

    @property
    def temperature_(self) -> float:
        """The factor on the cosines, as calibrated or given."""
        return self.head_.temperature_

    @property
    def fingerprint(self) -> str:
        """Hash of everything the answers depend on besides the image."""
        digest = hashlib.sha256(EmbeddingKey.of(self.backbone_).folder_name.encode())
        digest.update(repr((self.classes_.tolist(), self.temperature_)).encode("utf-8", "surrogateescape"))
        digest.update(np.ascontiguousarray(self.unit_prototypes_, dtype=np.float64).tobytes())
        return digest.hexdigest()[:32]

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that X is not a matrix, so that it leaves it alone."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags

    def _learn(self, pictures: Any, labels: ndarray) -> None:
        """Add images to a fitted classifier; nothing changes if something is wrong with them."""
        support = self._embed_support(pictures, labels)
        self.head_.partial_fit(support.vectors.astype(np.float64), labels[support.indices])
        self.frozen_support_ = _joined([self.frozen_support_, support.frozen])
        names = picture_names(pictures)
        self.support_names_ += tuple(names[index] for index in support.indices)
        self.skipped_ += tuple((names[index], reason) for index, reason in support.failed)

    def _embed_support(self, pictures: Any, labels: ndarray) -> Embedded:
        """Embed with the adapter and, for comparison, without; what is unreadable is named, unless a class is lost."""
        frozen = None if self.adapter_kind_ is None else without_adapter(self.backbone_)
        batches = list(self._batches(pictures, "embedding", frozen))
        support = Embedded(
            indices=np.concatenate([batch.indices for batch in batches]),
            vectors=np.concatenate([batch.vectors for batch in batches]),
            failed=tuple(failure for batch in batches for failure in batch.failed),
            frozen=_joined([batch.frozen for batch in batches]),
        )
        if support.failed:
            _report_failed(pictures, labels, support)
        return support

    def _batches(self, pictures: Any, description: str, frozen: Backbone | None = None) -> Iterator[Embedded]:
        return embed_batches(
            self.backbone_,
            pictures,
            frozen=frozen,
            batch_size=self.batch_size,
            workers=self.workers,
            description=description,
        )

    def _vectors(self, X: Any) -> Float64[ndarray, "images dim"]:
        return self.embed(X).astype(np.float64)


def _labeled(X: Any, y: Any) -> tuple[Any, ndarray]:
    """Images and a label for each."""
    if y is None:
        if isinstance(X, (str, os.PathLike)):
            X = open_domain(X if isinstance(X, str) else Path(X))
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


def _joined(parts: list[ndarray | None]) -> ndarray | None:
    given = [part for part in parts if part is not None]
    return np.concatenate(given) if len(given) == len(parts) else None


def _report_failed(pictures: Any, labels: ndarray, support: Embedded) -> None:
    names = picture_names(pictures)
    index, reason = support.failed[0]
    lost = np.setdiff1d(labels, labels[support.indices])
    if len(lost):
        raise InputError(
            f"no image of the class {named(lost)} can be read ({names[index]}: {reason}): give images that can be "
            "opened, or leave the class out"
        )
    warnings.warn(
        f"{len(support.failed)} of {len(names)} support images cannot be read and are left out, the first is "
        f"{names[index]}: {reason}",
        stacklevel=4,
    )
