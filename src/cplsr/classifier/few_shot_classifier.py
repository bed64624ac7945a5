"""FewShotClassifier: a few images of each class in, labels with meaningful confidence out."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64
from numpy import ndarray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from cplsr.adapters.attach import adapter_of
from cplsr.adapters.tokens import remove_tokens
from cplsr.backbones.backbone import Backbone
from cplsr.classifier.backbone_choice import adapter_kind, prepared_backbone, sharing_weights, without_adapter
from cplsr.classifier.embedding_classifier import EmbeddingClassifier, check_rejection
from cplsr.classifier.explanation import Explanation, Neighbor, as_bytes, class_token_attention, nearest, overlay
from cplsr.classifier.pictures import (
    Embedded,
    as_pictures,
    check_tunable,
    embed_batches,
    joined_or_none,
    picture_names,
    readable_pixels,
    single_pixels,
)
from cplsr.classifier.prediction import (
    OnError,
    Prediction,
    PredictionTable,
    check_on_error,
    pass_over,
    predictions_of,
    with_unreadable,
)
from cplsr.classifier.suggest import Suggestion, suggest
from cplsr.classifier.support_images import labeled_pictures, report_failed
from cplsr.classifier.support_report import SupportReport, report_on_support
from cplsr.data.domain import Domain
from cplsr.episodes.streams import Stream, numbered_generator
from cplsr.errors import InputError
from cplsr.evaluation.cache import EmbeddingCache, EmbeddingKey
from cplsr.methods.support_tuning import SupportTuning, make_tuning
from cplsr.settings.backbone import ClassifierPooling

SEEN_TOGETHER = 2000
"""From this many images what all of them have in common is known well enough, and memory stays bounded."""


class FewShotClassifier(ClassifierMixin, BaseEstimator):
    """Classify images from a few examples (support images) of each class; a scikit-learn estimator.

    A frozen vision transformer turns every image into a vector, a small head learns the classes from those of the
    support images, and an image gets the likeliest class, with a calibrated probability.

    In every method, images are a folder, one path, a list of paths, PIL images or uint8 arrays (height, width, 3), a
    `Domain`, pixels as the backbone takes them (tensors), or embeddings (2-D floats of the backbone's width).

    Args:
        backbone: What `load_backbone` takes, or a loaded `Backbone` (left as it is). Default: DINO ViT-S/16 if it is in
            the local hub cache or can be downloaded, else the small embedded one, with a warning.
        adapter: Adapter folder, run folder or hub id; `"frozen"` for none. Default: the one a loaded backbone carries,
            or the one packaged with the embedded backbone.
        head: A head or its name (see `cplsr.episodes.heads`), `prototypes` being the paper's. `auto` is ridge
            regression whose penalty is found by leaving out each support image in turn.
        pooling: What is read of the backbone: `cls` (the last class token, as in the paper), `mean`, or `depth` (class
            token and patch mean of every block). `auto` reads all blocks, the upper ones more; with the head `auto`,
            how much more is found like the penalty. A loaded backbone has its own; `auto` then goes by that.
        temperature: See `EmbeddingClassifier`.
        tune_on_support: Tune the class token of the backbone on the support images, once, in `fit`; `True`, or a table
            of options (those of `SupportTuning`). Head, pooling and temperature are settled before that, on embeddings
            that have not seen the images; with one image per class nothing is tuned, with a warning.
        image_size: See `load_backbone`; a loaded backbone has its own, like device and precision.
        device: See `load_backbone`.
        precision: See `load_backbone`.
        batch_size: How many images are embedded at a time.
        workers: Processes that decode images. Default: chosen by the number of cores.
        cache: Where embeddings of files are looked up and kept, so that an image is embedded once; default: nowhere.

    Attributes:
        backbone_: The backbone with its adapter.
        adapter_kind_: The kind of that adapter; `None` without one.
        head_: The `EmbeddingClassifier` that works on the embeddings.
        support_names_: Names of the support images, in the order of `head_.support_`.
        tuned_: The options with which the backbone was tuned on them; `None` where it was not.
        frozen_support_: Their embeddings without the adapter, or if tuned, before that; `None` without either.
        skipped_: (name, reason) of the support images that cannot be read.

    Example:
        >>> import numpy as np
        >>> from cplsr import FewShotClassifier
        >>> dark, bright = np.zeros((2, 40, 40, 3), np.uint8), np.full((2, 40, 40, 3), 255, np.uint8)
        >>> classifier = FewShotClassifier("embedded").fit([*dark, *bright], ["dark", "dark", "bright", "bright"])
        >>> classifier.predict(np.full((40, 40, 3), 250, np.uint8)).tolist()
        ['bright']
    """

    def __init__(
        self,
        backbone: str | Path | Backbone | None = None,
        adapter: str | Path | None = None,
        *,
        head: Any = "auto",
        pooling: ClassifierPooling = "auto",
        temperature: Any = "auto",
        tune_on_support: Any = False,
        image_size: int | None = None,
        device: str = "auto",
        precision: str = "fp32",
        batch_size: int = 64,
        workers: int | None = None,
        cache: EmbeddingCache | None = None,
    ) -> None:
        self.backbone = backbone
        self.adapter = adapter
        self.head = head
        self.pooling = pooling
        self.temperature = temperature
        self.tune_on_support = tune_on_support
        self.image_size = image_size
        self.device = device
        self.precision = precision
        self.batch_size = batch_size
        self.workers = workers
        self.cache = cache

    def fit(self, X: Any, y: Any = None) -> FewShotClassifier:
        """Learn from support images, one or more of each class; anything learned before is forgotten.

        Args:
            X: Images. Those that cannot be read are left out with a warning.
            y: The class of each image. Without it X brings its labels: a folder with one folder per class, or anything
                else that `open_domain` takes.

        Returns:
            The classifier itself.

        Raises:
            InputError: If images and labels do not fit together, or no image of some class can be read.
        """
        pictures, labels = labeled_pictures(X, y)
        tuning = self._tuning()
        if tuning is not None:
            check_tunable(pictures)
        self.backbone_ = prepared_backbone(
            self.backbone,
            self.adapter,
            image_size=self.image_size,
            pooling=self.pooling,
            device=self.device,
            precision=self.precision,
        )
        self.adapter_kind_ = adapter_kind(self.backbone_)
        self.tuned_: dict[str, Any] | None = None
        support = self._embed_support(pictures, labels)
        self.head_ = self.new_head()
        self.frozen_support_ = None if support.frozen is None else support.frozen[:0]
        self.support_names_: tuple[str, ...] = ()
        self.skipped_: tuple[tuple[str, str], ...] = ()
        self._learn(pictures, labels, support)
        if tuning is not None:
            self._tune(tuning, pictures)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> FewShotClassifier:
        """Learn more images, of known or new classes, as in `fit`, but nothing is tuned; what was learned stays."""
        if not hasattr(self, "head_"):
            return self.fit(X, y)
        pictures, labels = labeled_pictures(X, y)
        return self._learn(pictures, labels, self._embed_support(pictures, labels))

    def add_class(self, name: Any, images: Any) -> FewShotClassifier:
        """Add a class; the others stay as they are.

        Args:
            name: The new class.
            images: Its images; of a folder, all images in it.

        Raises:
            InputError: If there is a class of that name already.
        """
        check_is_fitted(self)
        if name in self.classes_.tolist():
            raise InputError(f"there is a class {name!r} already: give more images of it to partial_fit, or remove it")
        pictures = as_pictures(images)
        labels = np.array([name] * len(pictures))
        return self._learn(pictures, labels, self._embed_support(pictures, labels))

    def remove_class(self, name: Any) -> FewShotClassifier:
        """Forget a class and its images; the others stay as they are.

        Raises:
            InputError: If there is no such class, or no other.
        """
        check_is_fitted(self)
        kept = self.classes_[self.head_.support_labels_] != name
        self.head_.remove_class(name)
        self.support_names_ = tuple(text for text, keep in zip(self.support_names_, kept, strict=True) if keep)
        if self.frozen_support_ is not None:
            self.frozen_support_ = self.frozen_support_[kept]
        self._settle_as_before_tuning()
        return self

    def relabel(self, labels: Sequence[Any]) -> FewShotClassifier:
        """Give the support images other classes; no image is embedded again.

        Args:
            labels: The class of each, in the order of `support_names_`; `None` forgets the image.

        Raises:
            InputError: If no image would be left, or the labels are more or fewer than the images.
        """
        check_is_fitted(self)
        if len(labels) != len(self.support_names_):
            raise InputError(f"{len(labels):,} labels were given for {len(self.support_names_):,} support images")
        kept = np.array([label is not None for label in labels])
        if not kept.any():
            raise InputError("every support image would be forgotten: keep one at least")
        given = np.array([label for label in labels if label is not None])
        self.head_ = self.new_head().fit(self.head_.support_[kept], given)
        self.support_names_ = tuple(text for text, keep in zip(self.support_names_, kept, strict=True) if keep)
        if self.frozen_support_ is not None:
            self.frozen_support_ = self.frozen_support_[kept]
        self._settle_as_before_tuning()
        return self

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
        check_is_fitted(self)
        check_rejection(reject_below, self.classes_)
        vectors, readable = self._readable_vectors(X, on_error)
        labels = self.head_.predict(vectors, reject_below) if len(vectors) else self.classes_[:0]
        return labels if on_error != "label" or readable.all() else with_unreadable(labels, readable)

    def predict_proba(self, X: Any, *, on_error: OnError = "raise") -> Float64[ndarray, "images classes"]:
        """Give each image the probabilities of the classes, in the order of `classes_`.

        Args:
            X: Images.
            on_error: As for `predict`; with `label`, the probabilities of an image that cannot be read are nan.
        """
        check_is_fitted(self)
        vectors, readable = self._readable_vectors(X, on_error)
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
        check_is_fitted(self)
        check_on_error(on_error, self.classes_)
        pictures = as_pictures(X)
        rows = tuple(chain.from_iterable(self.predictions(pictures, reject_below=reject_below)))
        if on_error == "label":
            return PredictionTable(rows)
        read = tuple(row for row in rows if not row.error)
        if len(read) < len(rows):
            first = next(row for row in rows if row.error)
            pass_over(on_error, first.name, first.error, len(rows) - len(read), len(rows))
        return PredictionTable(read)

    def out_of_domain_score(self, X: Any) -> Float64[ndarray, "images"]:
        """Say how unlike the support images each image is, 0 to 1; see `EmbeddingClassifier.out_of_domain_score`."""
        check_is_fitted(self)
        return self.head_.out_of_domain_score(self._vectors(X))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Compute the accuracy, 0 to 1, on labeled images; without `y`, X brings its labels as in `fit`."""
        check_is_fitted(self)
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
        check_is_fitted(self)
        check_rejection(reject_below, self.classes_)
        pictures = as_pictures(X)
        names = picture_names(pictures)
        head = self.head_ if seen_with is None else self._seeing_together(as_pictures(seen_with))
        for batch in self._batches(pictures, "classifying"):
            answers = predictions_of(
                head, [names[index] for index in batch.indices], batch.vectors.astype(np.float64), reject_below
            )
            by_index = dict(zip(batch.indices.tolist(), answers, strict=True))
            by_index |= {index: Prediction(names[index], error=reason) for index, reason in batch.failed}
            yield [by_index[index] for index in sorted(by_index)]

    def embed(self, X: Any) -> Float32[ndarray, "images dim"]:
        """Compute embeddings, which every method takes in place of the images.

        Raises:
            InputError: If an image cannot be read.
        """
        check_is_fitted(self)
        return self._readable(X, "raise")[0]

    def suggest(self, X: Any, count: int = 10) -> list[Suggestion]:
        """Choose the images whose labels would teach most, the best first; those that cannot be read are left out.

        Args:
            X: Unlabeled images.
            count: How many to choose; see `cplsr.classifier.suggest.suggest`.
        """
        check_is_fitted(self)
        pictures = as_pictures(X)
        embedded = Embedded.joined(self._batches(pictures, "looking at all images"))
        vectors = embedded.vectors.astype(np.float64)
        chosen = suggest(self.head_, vectors, count)
        names, indices = picture_names(pictures), embedded.indices[chosen].tolist()
        guesses = predictions_of(self.head_, [names[index] for index in indices], vectors[chosen], None)
        return [Suggestion(index, guess) for index, guess in zip(indices, guesses, strict=True)]

    def evaluate_support(self) -> SupportReport:
        """Report what accuracy to expect, from the support images alone: some are held out and judged by the others."""
        check_is_fitted(self)
        frozen = self.frozen_head()
        if self.tuned_ is not None and frozen is not None:
            return report_on_support(frozen, self.support_names_, tuned=True)
        return report_on_support(self.head_, self.support_names_, frozen)

    def new_head(self, *, frozen: bool = False) -> EmbeddingClassifier:
        """What learns from embeddings, or from those of the frozen backbone, as these settings say; nothing is yet."""
        trained = None if frozen or self.adapter_kind_ is None else adapter_of(self.backbone_).temperature
        parts = self.backbone_.embedding_parts
        decay = 1.0 if self.pooling == "depth" else "auto"
        return EmbeddingClassifier(self.head, self.temperature, parts, decay, trained)

    def frozen_head(self) -> EmbeddingClassifier | None:
        """Fit the same head without the adapter, or where it was tuned on the support images, without the tuning.

        `None` if there is neither, or only embeddings were given.
        """
        check_is_fitted(self)
        if self.frozen_support_ is None:
            return None
        labels = self.classes_[self.head_.support_labels_]
        return self.new_head(frozen=True).fit(self.frozen_support_, labels)

    def explain(self, image: Any, neighbors: int = 5) -> Explanation:
        """Explain the label of one image: the support images most similar to it, and where the backbone looks.

        Args:
            image: One image, not an embedding.
            neighbors: How many similar support images to name.
        """
        check_is_fitted(self)
        pixels = single_pixels(self.backbone_, image)
        with torch.inference_mode():
            vector = self.backbone_(pixels.to(self.backbone_.device)).float().cpu().numpy().astype(np.float64)
        answer = predictions_of(self.head_, ["image"], vector, None)[0]
        labels = [str(label) for label in self.classes_[self.head_.support_labels_].tolist()]
        read = self.head_.read
        attention = class_token_attention(self.backbone_, pixels)
        return Explanation(
            label=answer.label,
            confidence=answer.confidence or 0.0,
            out_of_domain=answer.out_of_domain,
            neighbors=tuple(
                Neighbor(self.support_names_[position], labels[position], cosine)
                for position, cosine in nearest(read(vector)[0], read(self.head_.support_), neighbors)
            ),
            attention=attention,
            overlay=overlay(as_bytes(self.backbone_, pixels[0]), attention),
        )

    def save(self, path: str | Path) -> Path:
        """Write the fitted classifier to a folder, whole or not at all; no pickle, a megabyte or so.

        Args:
            path: The folder. A classifier that is there already is replaced; anything else is not.

        Returns:
            The folder.
        """
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
        cache: EmbeddingCache | None = None,
    ) -> FewShotClassifier:
        """Read a classifier that `save` wrote.

        Args:
            path: The folder.
            backbone: Where its backbone is now, if it has moved, or the loaded `Backbone`.
            device: See `load_backbone`.
            batch_size: How many images are embedded at a time.
            workers: Processes that decode images.
            cache: Where embeddings of files are looked up and kept.

        Raises:
            InputError: If the folder is damaged, or the backbone is not the one the classifier was fitted on.
        """
        from cplsr.classifier.store import load_classifier

        classifier = load_classifier(
            cls, path, backbone=backbone, device=device, batch_size=batch_size, workers=workers
        )
        return classifier.set_params(cache=cache)

    @property
    def classes_(self) -> ndarray:
        """The classes, sorted."""
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
        learned = (self.classes_.tolist(), head.choice_.head, head.choice_.reading, self.temperature_)
        digest.update(repr(learned).encode("utf-8", "surrogateescape"))
        digest.update(np.ascontiguousarray(head.support_).tobytes() + head.support_labels_.tobytes())
        return digest.hexdigest()[:32]

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that X is not a matrix, so that it leaves it alone."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.no_validation = True
        return tags

    def _learn(self, pictures: Any, labels: ndarray, support: Embedded) -> FewShotClassifier:
        """Add embedded images; nothing changes if something is wrong with them."""
        self.head_.partial_fit(support.vectors.astype(np.float64), labels[support.indices])
        self.frozen_support_ = joined_or_none([self.frozen_support_, support.frozen])
        names = picture_names(pictures)
        self.support_names_ += tuple(names[index] for index in support.indices)
        self.skipped_ += tuple((names[index], reason) for index, reason in support.failed)
        self._settle_as_before_tuning()
        return self

    def _tuning(self) -> SupportTuning | None:
        """What `tune_on_support` asks for."""
        asked = self.tune_on_support
        if not isinstance(asked, (bool, Mapping)):
            raise InputError(f"tune_on_support={asked!r} is not usable: give True, False, or a table of options")
        return None if asked is False else make_tuning({} if asked is True else asked)

    def _tune(self, tuning: SupportTuning, pictures: Any) -> None:
        """Tune the backbone on the images that were learned, and embed them again."""
        head = self.head_
        if reason := tuning.why_not(len(head.support_) / len(head.classes_)):
            warnings.warn(f"the classifier is {reason}", stacklevel=3)
            return
        pixels = readable_pixels(self.backbone_, pictures, self.batch_size, self.workers)
        tuning.tune(
            self.backbone_,
            pixels,
            torch.from_numpy(head.support_labels_),
            numbered_generator(0, 0, Stream.ADAPTATIONS),
            scale=torch.from_numpy(head.scale_) if head.parts > 1 else None,
        )
        self.tuned_, self.adapter_kind_ = tuning.options, adapter_kind(self.backbone_)
        self.frozen_support_ = head.support_.astype(np.float32)
        vectors = Embedded.joined(self._batches(pixels, "embedding")).vectors.astype(np.float64)
        head.restore(head.classes_, vectors, head.support_labels_, head.choice_, head.temperature_)

    def _settle_as_before_tuning(self) -> None:
        """Give a tuned classifier the choice and the temperature that its images have before tuning.

        Tuned embeddings have seen every support image, so that leaving one out of them would flatter.
        """
        head = self.head_
        if self.tuned_ is not None and (before := self.frozen_head()) is not None:
            head.restore(head.classes_, head.support_, head.support_labels_, before.choice_, before.temperature_)

    def _embed_support(self, pictures: Any, labels: ndarray) -> Embedded:
        """Embed with the adapter and, for comparison, without; what is unreadable is named, unless a class is lost."""
        frozen = None if self.adapter_kind_ is None else without_adapter(self.backbone_)
        if self.tuned_ is not None:
            check_tunable(pictures)
            frozen = remove_tokens(sharing_weights(self.backbone_))
        support = Embedded.joined(self._batches(pictures, "embedding", frozen))
        if support.failed:
            report_failed(pictures, labels, support)
        return support

    def _batches(self, pictures: Any, description: str, frozen: Backbone | None = None) -> Iterator[Embedded]:
        return embed_batches(
            self.backbone_,
            pictures,
            frozen=frozen,
            batch_size=self.batch_size,
            workers=self.workers,
            description=description,
            cache=self.cache,
        )

    def _seeing_together(self, pictures: Any) -> EmbeddingClassifier:
        """The head after a look at an even sample of images."""
        count = len(pictures)
        rows = np.unique(np.linspace(0, count - 1, min(count, SEEN_TOGETHER)).round().astype(np.int64))
        sample = pictures.select(rows.tolist()) if isinstance(pictures, Domain) else pictures[rows]
        vectors = Embedded.joined(self._batches(sample, "looking at all images")).vectors
        return self.head_.seeing_together(vectors.astype(np.float64))

    def _vectors(self, X: Any) -> Float64[ndarray, "images dim"]:
        return self.embed(X).astype(np.float64)

    def _readable_vectors(
        self, X: Any, on_error: OnError
    ) -> tuple[Float64[ndarray, "some dim"], Bool[ndarray, "images"]]:
        check_on_error(on_error, self.classes_)
        vectors, readable = self._readable(X, on_error)
        return vectors.astype(np.float64), readable

    def _readable(self, X: Any, on_error: OnError) -> tuple[Float32[ndarray, "some dim"], Bool[ndarray, "images"]]:
        """The embeddings of the images that can be read, and which these are."""
        pictures = as_pictures(X)
        embedded = Embedded.joined(self._batches(pictures, "embedding"))
        readable = np.zeros(len(pictures), dtype=bool)
        readable[embedded.indices] = True
        if embedded.failed and on_error != "label":
            index, reason = embedded.failed[0]
            pass_over(on_error, picture_names(pictures)[index], reason, len(embedded.failed), len(pictures))
        return embedded.vectors, readable
