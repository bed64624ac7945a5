"""An ONNX graph: pixels in, embeddings or class probabilities out, for any number of images."""

from __future__ import annotations

import importlib
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from cplsr.backbones.backbone import Backbone
from cplsr.data.preprocess import crop_of
from cplsr.episodes.prototypes import normalize
from cplsr.errors import InputError
from cplsr.export.destination import check_free_file
from cplsr.export.exported import Exported, checked_difference, merged_copy, on_cpu, origin, probe_images
from cplsr.files import write_file

if TYPE_CHECKING:
    from cplsr.classifier.embedding_classifier import EmbeddingClassifier

TOLERANCE = 1e-4
_LARGEST_FILE = (1 << 31) - (1 << 24)
"""A protobuf file ends at 2 GB; a little of that is the graph itself."""


@dataclass(frozen=True)
class LinearHead:
    """What turns an embedding z into class probabilities: the softmax of t · (unit(scale · z) · weights + offsets)."""

    classes: tuple[str, ...]
    scale: Float[Tensor, "dim"]
    weights: Float[Tensor, "dim classes"]
    offsets: Float[Tensor, "classes"]
    temperature: float


def head_of(classifier: EmbeddingClassifier) -> LinearHead:
    """Take weights and temperature from a classifier with a linear head; classes without images are left out."""
    if classifier.linear_ is None:
        name = classifier.choice_.head.name
        raise InputError(f"a classifier with the head {name} has no weights to export: fit it with ridge or prototypes")
    scale, weights, offsets = (torch.from_numpy(array).float() for array in (classifier.scale_, *classifier.linear_))
    classes = tuple(str(name) for name in classifier.classes_[classifier.counts_ > 0].tolist())
    return LinearHead(classes, scale, weights, offsets, float(classifier.temperature_))


class EmbeddingGraph(nn.Module):
    """The computation of an exported graph, as a module."""

    def __init__(self, backbone: Backbone, head: LinearHead | None) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    def forward(self, pixels: Tensor) -> Tensor:
        """Turn pixels (batch, 3, size, size) into embeddings (batch, dim), or into probabilities (batch, classes)."""
        # With something to do between the blocks a batch is not cut in parts, whose number would depend on its size.
        embeddings = self.backbone(pixels, between=lambda layer, tokens: tokens)
        if self.head is None:
            return embeddings
        scores = normalize(embeddings * self.head.scale) @ self.head.weights + self.head.offsets
        return (self.head.temperature * scores).softmax(dim=-1)


def export_onnx(
    backbone: Backbone, path: str | Path, *, raw_pixels: bool = False, head: LinearHead | None = None
) -> Exported:
    """Write a backbone as one `.onnx` file with the input `pixels` and the output `embedding`.

    An adapter is folded into the weights where that is possible; where it is not, the graph contains it. Mean, std,
    image size, class names and the like are in the file's `metadata_props`, as JSON. The graph is run by ONNX Runtime
    with one image and with three, and compared with `backbone`, before the file appears.

    Args:
        backbone: what to export, with or without an adapter.
        path: the file to write; nothing is overwritten.
        raw_pixels: the input is `uint8`, and the graph normalizes it; otherwise it is normalized floats.
        head: makes the output `probabilities` of its classes instead.

    Raises:
        InputError: the path is taken, a library is missing, or the model cannot be written or differs too much.
    """
    path = Path(path)
    check_free_file(path, ".onnx")
    _require_onnx()
    source = on_cpu(backbone)
    _check_head(source, head)
    inside, merged = _inside(source)
    if (size := sum(parameter.nbytes for parameter in inside.parameters())) > _LARGEST_FILE:
        raise InputError(
            f"{source.source!r} takes {size / 1e9:.1f} GB, and an ONNX file at most 2: give --to transformers"
        )
    graph = EmbeddingGraph(inside, head).eval()
    model = _trace(graph, raw_pixels=raw_pixels)
    for name, value in graph_metadata(source, raw_pixels=raw_pixels, head=head).items():
        model.metadata_props.add(key=name, value=value)
    content: bytes = model.SerializeToString()
    difference = _compare(content, EmbeddingGraph(source, head), raw_pixels=raw_pixels)
    write_file(path, content)
    return Exported(path, merged=merged, difference=difference)


def graph_metadata(source: Backbone, *, raw_pixels: bool, head: LinearHead | None) -> dict[str, str]:
    """Collect what a user of the graph has to know, each entry as JSON: colors, sizes, classes, origin."""
    metadata: dict[str, Any] = {
        "input": "raw pixels, uint8" if raw_pixels else "normalized pixels, float32",
        **{name: getattr(source, name) for name in ("mean", "std", "image_size", "pooling")},
        "resize_to": crop_of(source.image_size)[0],
        **origin(source),
    }
    if head is not None:
        metadata |= {"classes": list(head.classes), "temperature": head.temperature}
    return {name: json.dumps(value, ensure_ascii=False) for name, value in metadata.items()}


def _require_onnx() -> None:
    try:
        for library in ("onnx", "onnxruntime", "onnxscript"):
            importlib.import_module(library)
    except ImportError as error:
        raise InputError(f"ONNX export needs {error.name}: pip install 'cplsr[onnx]'") from error


def _check_head(backbone: Backbone, head: LinearHead | None) -> None:
    if head is None:
        return
    wanted = (backbone.embedding_dim, len(head.classes))
    if tuple(head.weights.shape) != wanted or not head.classes:
        raise InputError(
            f"weights have the shape {tuple(head.weights.shape)}; {len(head.classes)} classes and embeddings of "
            f"{backbone.embedding_dim} numbers want {wanted}"
        )


def _inside(source: Backbone) -> tuple[Backbone, bool]:
    """The backbone that goes into the graph, and whether an adapter was folded into it."""
    if source.adapter is None:
        return source, False
    try:
        return merged_copy(source), True
    except InputError:
        return source, False


def _trace(graph: EmbeddingGraph, *, raw_pixels: bool) -> Any:
    images = probe_images(graph.backbone, 2, raw=raw_pixels)
    with _quiet_exporter(), torch.no_grad():
        program = torch.onnx.export(
            graph,
            (images,),
            dynamo=True,
            input_names=["pixels"],
            output_names=["embedding" if graph.head is None else "probabilities"],
            dynamic_shapes={"pixels": {0: torch.export.Dim("batch")}},
            external_data=False,
            verbose=False,
        )
    if program is None:
        raise RuntimeError("torch.onnx.export gave nothing back")
    return program.model_proto


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """No warnings from torch's exporter: they are about operators of libraries that are not used."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _compare(content: bytes, reference: EmbeddingGraph, *, raw_pixels: bool) -> float:
    """The larger difference of a batch of one and a batch of three."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    batch = session.get_inputs()[0].shape[0]
    if isinstance(batch, int):
        kind = getattr(reference.backbone.adapter, "kind", "none")
        raise InputError(
            f"the graph would take batches of {batch} images only (adapter: {kind}), because the batch size was asked "
            "for as a plain number on the way, so it was not written: use this model inside cplsr"
        )
    differences = []
    for count in (1, 3):
        images = probe_images(reference.backbone, count, raw=raw_pixels)
        result = torch.from_numpy(session.run(None, {"pixels": images.numpy()})[0])
        with torch.inference_mode():
            differences.append(checked_difference(result, reference(images), TOLERANCE, "the ONNX graph"))
    return max(differences)
