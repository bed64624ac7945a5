"""A classifier on disk: a folder with `classifier.json`, `classifier.safetensors` and, if it has one, its adapter."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy import ndarray
from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as tensor_bytes

from cplsr.adapters.attach import adapter_of, detach
from cplsr.adapters.store import load_adapter, save_adapter
from cplsr.backbones.backbone import Backbone
from cplsr.backbones.load import load_backbone
from cplsr.classifier.backbone_choice import FROZEN, loading_again, sharing_weights
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.classifier.reading_choice import Choice, fixed_choice
from cplsr.environment import versions
from cplsr.episodes.heads import Head, make_head
from cplsr.episodes.heads.auto import USUAL, Reading
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.episodes.heads.ridge import Ridge
from cplsr.errors import InputError
from cplsr.files import new_folder, write_file
from cplsr.records.classifier import DESCRIPTION, ClassifierInfo, ClassKind, HeadInfo
from cplsr.records.parts import BackboneInfo

TENSORS, ADAPTER = "classifier.safetensors", "adapter"
_KINDS: dict[str, tuple[ClassKind, Any]] = {
    "U": ("text", str),
    "i": ("integer", np.int64),
    "u": ("integer", np.int64),
    "f": ("real", np.float64),
    "b": ("truth", np.bool_),
}
Classifier = TypeVar("Classifier", bound=FewShotClassifier)


def save_classifier(classifier: FewShotClassifier, path: str | Path) -> Path:
    """Write a fitted classifier to a folder, whole or not at all; see `FewShotClassifier.save`."""
    path = Path(path)
    check_free(path)
    head, backbone = classifier.head_, classifier.backbone_
    single = head.support_.astype(np.float32)
    tensors = {
        "support": single if np.array_equal(single, head.support_) else head.support_,
        "support_labels": head.support_labels_,
    }
    if classifier.frozen_support_ is not None:
        tensors["frozen_support"] = classifier.frozen_support_
    content = tensor_bytes({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()})
    info = ClassifierInfo(
        classes=head.classes_.tolist(),
        class_kind=_KINDS[head.classes_.dtype.kind][0],
        counts=head.counts_.tolist(),
        temperature=head.temperature_,
        settings={
            "temperature": classifier.temperature,
            "head": classifier.head if isinstance(classifier.head, str) else classifier.head.description(),
            "pooling": classifier.pooling,
        },
        choice={
            "head": head.choice_.head.description(),
            "decay": head.choice_.reading.decay,
            "favor": head.choice_.reading.favor,
            "tilt": head.choice_.reading.tilt,
            "reason": head.choice_.reason,
        },
        backbone=backbone.description(),
        adapter=None
        if classifier.adapter_kind_ is None
        else {"kind": classifier.adapter_kind_, "fingerprint": str(backbone.adapter_fingerprint)},
        support_names=classifier.support_names_,
        fingerprint=classifier.fingerprint,
        versions=versions(),
        sha256=hashlib.sha256(content).hexdigest(),
        tuned=classifier.tuned_,
    )
    with new_folder(path) as folder:
        write_file(folder / TENSORS, content)
        if classifier.adapter_kind_ is not None:
            save_adapter(backbone, folder / ADAPTER, temperature=adapter_of(backbone).temperature)
        info.write(folder)
    return path


def check_free(path: Path) -> None:
    """Raise `InputError` if writing a classifier to `path` would overwrite anything but a classifier."""
    other = path.exists() and not (path / DESCRIPTION).is_file()
    if other and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"{path} exists and is not a saved classifier, so it is not overwritten: give another path")


def load_classifier(
    kind: type[Classifier],
    path: str | Path,
    backbone: str | Path | Backbone | None,
    device: str,
    **running: Any,
) -> Classifier:
    """Read a classifier of the class `kind`; see `FewShotClassifier.load`."""
    folder = Path(path)
    if not (folder / DESCRIPTION).is_file():
        raise InputError(f"there is no saved classifier at {folder}: give a folder with {DESCRIPTION}")
    info = ClassifierInfo.read(folder)
    tensors = _read_tensors(folder, info.sha256)
    loaded = _load_backbone(folder, info, backbone, device)
    classifier = kind(
        backbone=info.backbone["source"] if backbone is None else backbone,
        adapter=FROZEN if info.adapter is None else folder / ADAPTER,
        **_settings(info),
        image_size=info.backbone["image_size"],
        device=device,
        precision=info.backbone["precision"],
        **running,
    )
    classifier.backbone_, classifier.tuned_ = loaded, info.tuned
    types = dict(_KINDS.values())
    try:
        _check_fit(info, tensors)
        classifier.head_ = classifier.new_head().restore(
            classes=np.array(info.classes, dtype=types[info.class_kind]),
            support=tensors["support"].astype(np.float64),
            support_labels=tensors["support_labels"],
            choice=_choice(info),
            temperature=info.temperature,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise _damaged(folder / DESCRIPTION, error) from error
    classifier.frozen_support_ = tensors.get("frozen_support")
    classifier.support_names_ = info.support_names
    classifier.skipped_ = ()
    return classifier


def _settings(info: ClassifierInfo) -> dict[str, Any]:
    """What a classifier is made with; one of the first format has the paper's head on the backbone's own pooling."""
    settings: dict[str, Any] = {"pooling": info.backbone["pooling"], **info.settings}
    kind = settings.pop("prototype", "mean")
    head = settings.get("head", {"name": Prototypes.name, "kind": kind})
    return settings | {"head": head if isinstance(head, str) else _made(head)}


def _made(info: HeadInfo) -> Head:
    options = dict(info)
    return make_head(str(options.pop("name")), **options)


def _choice(info: ClassifierInfo) -> Choice:
    if info.choice is None:
        return fixed_choice(Prototypes(info.settings.get("prototype", "mean")), None)
    head = _made(info.choice["head"])
    penalty = head.penalty if isinstance(head, Ridge) else USUAL.penalty
    reading = Reading(info.choice["decay"], info.choice.get("favor", 0.0), penalty, info.choice.get("tilt", 0.0))
    return Choice(head, reading, info.choice["reason"])


def _read_tensors(folder: Path, sha256: str) -> dict[str, ndarray]:
    file = folder / TENSORS
    try:
        content = file.read_bytes()
        if hashlib.sha256(content).hexdigest() != sha256:
            raise InputError(f"{file} is not the file that {DESCRIPTION} describes: save the classifier again")
        return dict(parse_tensors(content))
    except (OSError, SafetensorError, KeyError) as error:  # KeyError: a type of numbers that numpy has not
        raise _damaged(file, error) from error


def _check_fit(info: ClassifierInfo, tensors: dict[str, ndarray]) -> None:
    """Description and tensors must speak of the same classes and images."""
    classes, images = len(info.classes), len(info.support_names)
    labels = tensors["support_labels"]
    counted = [int((labels == number).sum()) for number in range(classes)]
    if not len(tensors["support"]) == len(labels) == images == sum(counted) or counted != info.counts:
        raise ValueError(f"{classes} classes and {images} images do not fit its tensors")


def _damaged(file: Path, error: Exception) -> InputError:
    return InputError(f"{file} is damaged ({error}): save the classifier again")


def _load_backbone(folder: Path, info: ClassifierInfo, given: str | Path | Backbone | None, device: str) -> Backbone:
    """The backbone the classifier was fitted on, from where it was or where it is now, with the adapter on it."""
    wanted = info.backbone
    if isinstance(given, Backbone):
        backbone = detach(sharing_weights(given))
    else:
        source = wanted["source"] if given is None else str(given)
        try:
            loading = loading_again(wanted, source) | {"views": wanted.get("views", "plain")}
            backbone = load_backbone(source, device=device, precision=wanted["precision"], **loading)
        except InputError as error:
            if given is not None:
                raise
            raise InputError(
                f"the backbone of the classifier {folder} is not where it was ({error}): say where it is now with "
                "backbone= (--backbone)"
            ) from error
    _check_same(backbone, wanted, folder)
    if info.adapter is None:
        return backbone
    load_adapter(backbone, folder / ADAPTER)
    if backbone.adapter_fingerprint != info.adapter["fingerprint"]:
        raise InputError(
            f"{folder / ADAPTER} is not the adapter that {DESCRIPTION} describes: save the classifier again"
        )
    return backbone


def _check_same(backbone: Backbone, wanted: BackboneInfo, folder: Path) -> None:
    if backbone.fingerprint != wanted["fingerprint"]:
        raise InputError(
            f"the classifier {folder} was fitted on {wanted['source']!r}, whose weights are not those of "
            f"{backbone.source!r}: give the same backbone, or fit again"
        )
    description = backbone.description()
    for name in ("image_size", "pooling", "pooled_layers", "views", "mean", "std"):
        given, fitted = description.get(name), wanted.get(name)
        if given != fitted:
            option = name.removeprefix("pooled_")
            raise InputError(
                f"the classifier {folder} was fitted with {option} {fitted}, but the backbone given has {given}: load "
                f"it with {option}={fitted!r}"
            )
