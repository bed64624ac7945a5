"""Why an image got its label: the support images nearest to it, and where the backbone looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32, Float64, Shaped, UInt8
from numpy import ndarray
from PIL import Image
from torch import Tensor

from cplsr.analysis.attention import cls_attention
from cplsr.backbones.backbone import Backbone
from cplsr.classifier.embedding_classifier import EmbeddingClassifier
from cplsr.classifier.prediction import predictions_of
from cplsr.evaluation.embed import embed_pixels

OVERLAY = 0.6
"""How much of the picture the strongest attention may cover."""


@dataclass(frozen=True)
class Neighbor:
    """A support image, its class, and its cosine similarity to the image that is explained (1 is identical)."""

    name: str
    label: str
    cosine: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """The label of one image, and what speaks for it.

    Attributes:
        label: The likeliest class.
        confidence: Its probability.
        out_of_domain: How unlike the support images the image is, 0 to 1; see `EmbeddingClassifier`.
        neighbors: The most similar support images, the nearest first.
        attention: How much the class token attends to each patch in the last block, mean over the heads, g × g patches.
        overlay: The image as the backbone sees it (resized and cropped), the attended parts in red.
    """

    label: str
    confidence: float
    out_of_domain: float | None
    neighbors: tuple[Neighbor, ...]
    attention: Float32[ndarray, "g g"]
    overlay: Image.Image


def explain(
    backbone: Backbone,
    head: EmbeddingClassifier,
    support_names: Sequence[str],
    pixels: Shaped[Tensor, "1 3 size size"],
    neighbors: int,
) -> Explanation:
    """Explain the label of one image, given as the backbone takes it, with so many similar support images."""
    vector = embed_pixels(backbone, pixels, lambda _: "the image").astype(np.float64)
    answer = predictions_of(head, ["image"], vector, None)[0]
    labels = [str(label) for label in head.classes_[head.support_labels_].tolist()]
    attention = cls_attention(backbone, pixels.to(backbone.device))[0].mean(dim=0).numpy()
    return Explanation(
        label=answer.label,
        confidence=answer.confidence or 0.0,
        out_of_domain=answer.out_of_domain,
        neighbors=tuple(
            Neighbor(support_names[position], labels[position], cosine)
            for position, cosine in nearest(head.read(vector)[0], head.read(head.support_), neighbors)
        ),
        attention=attention,
        overlay=overlay(as_bytes(backbone, pixels[0]), attention),
    )


def nearest(
    vector: Float64[ndarray, "dim"], support: Float64[ndarray, "images dim"], count: int
) -> list[tuple[int, float]]:
    """Find the `count` support vectors nearest to a vector: their positions and cosines, the nearest first."""
    lengths = np.linalg.norm(support, axis=1) * np.linalg.norm(vector)
    cosines = support @ vector / np.where(lengths > 0, lengths, 1.0)
    order = np.argsort(-cosines, kind="stable")[:count]
    return [(int(position), float(cosines[position])) for position in order]


def as_bytes(backbone: Backbone, pixels: Tensor) -> UInt8[ndarray, "size size 3"]:
    """Turn one image (3, S, S) from what the backbone takes, maybe normalized, back into bytes to look at."""
    if pixels.dtype != torch.uint8:
        mean, std = (torch.tensor(values).view(3, 1, 1) for values in (backbone.mean, backbone.std))
        pixels = ((pixels.cpu().float() * std + mean) * 255).round().clamp(0, 255).to(torch.uint8)
    return np.ascontiguousarray(pixels.cpu().permute(1, 2, 0).numpy())


def overlay(picture: UInt8[ndarray, "size size 3"], attention: Float32[ndarray, "g g"]) -> Image.Image:
    """Lay red over a picture: none where attention is weakest, most where it is strongest."""
    low, high = float(attention.min()), float(attention.max())
    relative = (attention - low) / (high - low if high > low else 1.0)
    size = picture.shape[0]
    mask = Image.fromarray(np.rint(relative * OVERLAY * 255).astype(np.uint8)).resize(
        (size, size), Image.Resampling.BILINEAR
    )
    return Image.composite(Image.new("RGB", (size, size), (255, 0, 0)), Image.fromarray(picture), mask)
