"""Embeddings of decoded images in every turn, by all processes together."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float32, Int64
from numpy import ndarray

from cplsr.backbones.backbone import Backbone
from cplsr.data.decoded_images import DecodedImages
from cplsr.evaluation.embed import embed_decoded
from cplsr.processes import Processes

BATCH = 64
"""Images that are embedded at a time."""


def in_batches(numbers: Int64[ndarray, "images"]) -> list[Int64[ndarray, "some"]]:
    """Numbers of images in pieces of one batch."""
    return np.split(numbers, range(BATCH, len(numbers), BATCH))


def embed_turned(
    backbone: Backbone, images: DecodedImages, chosen: Int64[ndarray, "chosen"], turns: int, processes: Processes
) -> Float32[ndarray, "rows dim"]:
    """All chosen images as they are, then all turned once, and so on; every process gets all the rows."""
    turned = [(turn, batch) for turn in range(turns) for batch in in_batches(chosen)]
    return np.concatenate(processes.unshare(list(embed_decoded(backbone, images, processes.share(turned)))))
