"""What a fitted classifier can be asked about images: labels, probabilities, what to label next, and why."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Float64
from numpy import ndarray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from cplsr.backbones.backbone import Backbone
from cplsr.classifier.embed_pictures import Embedder
from cplsr.classifier.embedding_classifier import EmbeddingClassifier
from cplsr.classifier.even_sample import even_rows
from cplsr.classifier.explanation import Explanation, explain
from cplsr.classifier.no_class import UNREADABLE, OnError, check_on_error, check_rejection, labels_or, pass_over
from cplsr.classifier.pictures import as_pictures, labeled_pictures, picture_names, single_pixels
from cplsr.classifier.prediction import Prediction, PredictionTable, predictions_of
from cplsr.classifier.suggest import Suggestion, suggest
from cplsr.data.domain import Domain
from cplsr.evaluation.cache import EmbeddingCache, EmbeddingKey

SEEN_TOGETHER = 2000
"""From this many images what all of them have in common is known well enough, and memory stays bounded."""


class ImageAnswers(ClassifierMixin, BaseEstimator):
    """The answering half of `FewShotClassifier`, which says what the attributes are and how they come to be."""

    backbone_: Backbone
    head_: EmbeddingClassifier
    support_names_: tuple[str, ...]
    batch_size: int
    workers: int | None
    cache: EmbeddingCache | None

    def predict(self, X: Any, reject_below: float | None = None, *, on_error: OnError = "raise") -> ndarray:
        """Label each image with its likeliest class.

        Args:
            X: Images.
            reject_below: Answer `unknown` where the likeliest class is less likely than this.
            on_error: What becomes of an image that cannot be read: `raise` an error; `skip` it, with a warning, so that
                there are fewer labels than images; or `label` it `unreadable`. `predict_table` says which ones and why.

        Raises:
            InputError: If an image cannot be read and should not be passed over, or the threshold is no probability.
        """
        check_rejection(reject_below, self.classes_)
        vectors, readable = self._readable(X, on_error)
        labels = self.head_.predict(vectors, reject_below) if len(vectors) else self.classes_[:0]
        return labels if on_error != "label" or readable.all() else labels_or(UNREADABLE, labels, readable)

    def predict_proba(self, X: Any, *, on_error: OnError = "raise") -> Float64[ndarray, "images classes"]:
        """Give each image the probabilities of the classes, in the order of `classes_`.

        Args:
            X: Images.
            on_error: As for `predict`; with `label`, the probabilities of an image that cannot be read are nan.
        """
        vectors, readable = self._readable(X, on_error)
        probabilities = self.head_.predict_proba(vectors) if len(vectors) else np.empty((0, len(self.classes_)))
        if on_error != "label":
            return probabilities
        rows = np.full((len(readable), len(self.classes_)), np.nan)
        rows[readable] = probabilities
        return rows

    def predict_table(
        self, X: Any, reject_below: float | None = None, *, on_error: OnError = "label"
    ) -> PredictionTable:
        """Label images, and say of each its path, its confidence, the runner-up, and why it could not be read.

        Args:
            X: Images.
            reject_below: Answer `unknown` where the likeliest class is less likely than this.
            on_error: What becomes of an image that cannot be read: a row with its `error` (`label`), no row (`skip`),
                or an error (`raise`).

        Returns:
            One row per image; `to_pandas()` makes a `DataFrame` of it. For more images than memory has room for, use
            `predictions`.
        """
        check_on_error(on_error, self.classes_)
        rows = tuple(chain.from_iterable(self.predictions(X, reject_below=reject_below)))
        pass_over(on_error, [(row.name, row.error) for row in rows if row.error], len(rows))
        return PredictionTable(rows if on_error == "label" else tuple(row for row in rows if not row.error))

    def out_of_domain_score(self, X: Any) -> Float64[ndarray, "images"]:
        """Say how unlike the support images each image is, 0 to 1; see `EmbeddingClassifier.out_of_domain_score`."""
        vectors = self.embed(X)
        return self.head_.out_of_domain_score(vectors)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Compute the accuracy, 0 to 1, on labeled images; without `y`, X brings its labels as in `fit`."""
        pictures, labels = labeled_pictures(X, y)
        return float(accuracy_score(labels, self.predict(pictures), sample_weight=sample_weight))

    def predictions(
        self, X: Any, *, reject_below: float | None = None, seen_with: Any = None
    ) -> Iterator[list[Prediction]]:
        """Label images batch by batch; memory does not depend on their number.

        Args:
            X: Images.
            reject_below: Answer `unknown` where the likeliest class is less likely than this.
            seen_with: Images that come together, X or more, of which up to 2,000 help to find the classes; for one
                support image per class (see `EmbeddingClassifier.seeing_together`).

        Yields:
            The answers of a batch, one for every image in order; an image that cannot be read has one with an error.
        """
        check_rejection(reject_below, self.classes_)
        pictures = as_pictures(X)
        names = picture_names(pictures)
        head = self.head_ if seen_with is None else self._seeing_together(as_pictures(seen_with))
        for batch in self._embedder("classifying").batches(pictures):
            answers = predictions_of(head, [names[index] for index in batch.indices], batch.vectors, reject_below)
            by_index = dict(zip(batch.indices.tolist(), answers, strict=True))
            by_index |= {index: Prediction(names[index], error=reason) for index, reason in batch.failed}
            yield [by_index[index] for index in sorted(by_index)]

    def embed(self, X: Any) -> Float32[ndarray, "images dim"]:
        """Compute embeddings, which every method takes in place of the images.

        Raises:
            InputError: If an image cannot be read.
        """
        return self._readable(X, "raise")[0]

    def suggest(self, X: Any, count: int = 10) -> list[Suggestion]:
        """Choose the images whose labels would teach most, the best first; those that cannot be read are left out.

        Args:
            X: Unlabeled images.
            count: How many to choose; see `cplsr.classifier.suggest.suggest`.
        """
        pictures = as_pictures(X)
        vectors, readable = self._readable(pictures, "skip", "looking at all images")
        chosen = suggest(self.head_, vectors, count)
        names, indices = picture_names(pictures), np.flatnonzero(readable)[chosen].tolist()
        guesses = predictions_of(self.head_, [names[index] for index in indices], vectors[chosen], None)
        return [Suggestion(index, guess) for index, guess in zip(indices, guesses, strict=True)]

    def explain(self, image: Any, neighbors: int = 5) -> Explanation:
        """Explain the label of one image: the support images most similar to it, and where the backbone looks.

        Args:
            image: One image, not an embedding.
            neighbors: How many similar support images to name.
        """
        check_is_fitted(self)
        pixels = single_pixels(self.backbone_, image)
        return explain(self.backbone_, self.head_, self.support_names_, pixels, neighbors)

    @property
    def classes_(self) -> ndarray:
        """The classes, sorted; like all that needs them, an error before there are any."""
        check_is_fitted(self)
        return self.head_.classes_

    @property
    def counts_(self) -> ndarray:
        """How many support images each class has."""
        return self.head_.counts_

    @property
    def temperature_(self) -> float:
        """The factor by which scores are multiplied before the softmax, calibrated or given."""
        return self.head_.temperature_

    @property
    def fingerprint(self) -> str:
        """A hash of everything the answers depend on besides the image."""
        digest = hashlib.sha256(EmbeddingKey.of(self.backbone_).folder_name.encode())
        head = self.head_
        reading = repr(head.choice_.reading).replace(", tilt=0.0", "")  # as before there was one: older runs go on
        learned = f"({self.classes_.tolist()}, {head.choice_.head}, {reading}, {self.temperature_!r})"
        digest.update(learned.encode("utf-8", "surrogateescape"))
        digest.update(np.ascontiguousarray(head.support_).tobytes() + head.support_labels_.tobytes())
        return digest.hexdigest()[:32]

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that X is not a matrix, so that it leaves it alone."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags

    def _embedder(self, description: str, frozen: Backbone | None = None) -> Embedder:
        return Embedder(self.backbone_, frozen, self.batch_size, self.workers, self.cache, description)

    def _seeing_together(self, pictures: Any) -> EmbeddingClassifier:
        """The head after a look at an even sample of images."""
        rows = even_rows(len(pictures), SEEN_TOGETHER)
        sample = pictures.select(rows.tolist()) if isinstance(pictures, Domain) else pictures[rows]
        return self.head_.seeing_together(self._embedder("looking at all images").at_once(sample).vectors)

    def _readable(
        self, X: Any, on_error: OnError, description: str = "embedding"
    ) -> tuple[Float32[ndarray, "some dim"], Bool[ndarray, "images"]]:
        """The embeddings of the images that can be read, and which these are."""
        check_on_error(on_error, self.classes_)
        pictures = as_pictures(X)
        embedded = self._embedder(description).at_once(pictures)
        readable = np.zeros(len(pictures), dtype=bool)
        readable[embedded.indices] = True
        if embedded.failed:
            names = picture_names(pictures)
            pass_over(on_error, [(names[index], reason) for index, reason in embedded.failed], len(pictures))
        return embedded.vectors, readable
