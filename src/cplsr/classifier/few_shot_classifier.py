"""FewShotClassifier: a few images of each class in, labels with meaningful confidence out."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from numpy import ndarray
from sklearn.utils.validation import check_is_fitted

from cplsr.adapters.attach import adapter_of
from cplsr.adapters.tokens import remove_tokens
from cplsr.backbones.backbone import Backbone
from cplsr.classifier.backbone_choice import adapter_kind, prepared_backbone, sharing_weights, without_adapter
from cplsr.classifier.embed_pictures import Embedded, joined_or_none, report_failed
from cplsr.classifier.embedding_classifier import EmbeddingClassifier
from cplsr.classifier.image_answers import ImageAnswers
from cplsr.classifier.pictures import as_pictures, check_tunable, labeled_pictures, picture_names
from cplsr.classifier.support_report import SupportReport, report_on_support
from cplsr.episodes.streams import Stream, numbered_generator
from cplsr.errors import InputError
from cplsr.evaluation.cache import EmbeddingCache
from cplsr.methods.support_tuning import SupportTuning, make_tuning
from cplsr.settings.backbone import ClassifierPooling, Views


class FewShotClassifier(ImageAnswers):
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
        views: How often an image is looked at, for the mean of its embeddings: `plain`, once, the default; `mirrored`,
            also its mirror image; `turned`, both at every quarter turn (eight times the work), which gains points where
            images have no upright position, and costs more where they have. A loaded backbone has its own.
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
        views: Views | None = None,
        temperature: Any = "auto",
        tune_on_support: Any = False,
        image_size: int | None = None,
        device: str = "auto",
        precision: str = "fp32",
        batch_size: int = 64,
        workers: int | None = None,
        cache: EmbeddingCache | None = None,
    ) -> None:
        self.backbone, self.adapter = backbone, adapter
        self.head, self.temperature, self.tune_on_support = head, temperature, tune_on_support
        self.pooling, self.views, self.image_size = pooling, views, image_size
        self.device, self.precision = device, precision
        self.batch_size, self.workers, self.cache = batch_size, workers, cache

    @property
    def adapter_kind_(self) -> str | None:
        """The kind of the adapter on the backbone; `None` without one."""
        return adapter_kind(self.backbone_)

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
        tuning = _asked_tuning(self.tune_on_support)
        if tuning is not None:
            check_tunable(pictures)
        self._forget()
        try:
            self.backbone_ = prepared_backbone(
                self.backbone,
                self.adapter,
                image_size=self.image_size,
                pooling=self.pooling,
                views=self.views,
                device=self.device,
                precision=self.precision,
            )
            self.tuned_: dict[str, Any] | None = None
            support = self._embed_support(pictures, labels)
            self.head_ = self.new_head()
            self.frozen_support_ = None if support.frozen is None else support.frozen[:0]
            self.support_names_: tuple[str, ...] = ()
            self.skipped_: tuple[tuple[str, str], ...] = ()
            self._learn(pictures, labels, support)
            if tuning is not None:
                self._tune(tuning, pictures)
        except BaseException:
            self._forget()  # half of it would answer, wrongly
            raise
        return self

    def _forget(self) -> None:
        for learned in [name for name in vars(self) if name.endswith("_")]:
            self.__dict__.pop(learned)

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
        kept = self.classes_[self.head_.support_labels_] != name
        self.head_.remove_class(name)
        return self._keep(kept)

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
        return self._keep(kept)

    def evaluate_support(self) -> SupportReport:
        """Report what accuracy to expect, from the support images alone: some are held out and judged by the others."""
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
        """Read a classifier that `save` wrote to the folder `path`.

        `backbone` says where its backbone is now, if it has moved, or is the loaded `Backbone`; for the other arguments
        see the class.

        Raises:
            InputError: If the folder is damaged, or the backbone is not the one the classifier was fitted on.
        """
        from cplsr.classifier.store import load_classifier

        return load_classifier(cls, path, backbone, device, batch_size=batch_size, workers=workers, cache=cache)

    def _learn(self, pictures: Any, labels: ndarray, support: Embedded) -> FewShotClassifier:
        """Add embedded images; nothing changes if something is wrong with them."""
        self.head_.partial_fit(support.vectors, labels[support.indices])
        self.frozen_support_ = joined_or_none([self.frozen_support_, support.frozen])
        names = picture_names(pictures)
        self.support_names_ += tuple(names[index] for index in support.indices)
        self.skipped_ += tuple((names[index], reason) for index, reason in support.failed)
        self._settle_as_before_tuning()
        return self

    def _keep(self, kept: Bool[ndarray, "images"]) -> FewShotClassifier:
        """Forget the names and the frozen embeddings of the other images, as the head has forgotten its own."""
        self.support_names_ = tuple(text for text, keep in zip(self.support_names_, kept, strict=True) if keep)
        if self.frozen_support_ is not None:
            self.frozen_support_ = self.frozen_support_[kept]
        self._settle_as_before_tuning()
        return self

    def _tune(self, tuning: SupportTuning, pictures: Any) -> None:
        """Tune the backbone on the images that were learned, and embed them again."""
        head = self.head_
        if reason := tuning.why_not(len(head.support_) / len(head.classes_)):
            warnings.warn(f"the classifier is {reason}", stacklevel=3)
            return
        pixels = self._embedder("decoding").readable_pixels(pictures)
        labels, scale = map(torch.from_numpy, (head.support_labels_, head.scale_))
        generator = numbered_generator(0, 0, Stream.ADAPTATIONS)
        tuning.tune(self.backbone_, pixels, labels, generator, scale=scale if head.parts > 1 else None)
        self.tuned_, self.frozen_support_ = tuning.options, head.support_.astype(np.float32)
        vectors = self._embedder("embedding").at_once(pixels).vectors.astype(np.float64)
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
        support = self._embedder("embedding", frozen).at_once(pictures)
        if support.failed:
            report_failed(pictures, labels, support)
        return support


def _asked_tuning(tune_on_support: Any) -> SupportTuning | None:
    """What `tune_on_support` asks for, by a truth value or a table of options."""
    if not isinstance(tune_on_support, (bool, Mapping)):
        raise InputError(f"tune_on_support={tune_on_support!r} is not usable: give True, False, or a table of options")
    return None if tune_on_support is False else make_tuning({} if tune_on_support is True else tune_on_support)
