"""Embedding a target from JPEG files, decoding included, against the same images as tensors in memory.

    python benchmarks/embedding.py [--quick] [--json FILE]

A ViT-S/16 (random weights, fp32, 224 px) embeds JPEGs of 256 px through `embed_domain` without a cache. The other side
is the bare backbone on pixels that were decoded beforehand, so the ratio is what is left of the backbone's speed when
images come from disk. The small embedded backbone, which decoding can hardly keep up with, and decoding alone are
printed beside it.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch
from claims import Claim, arguments, interleaved, report
from PIL import Image
from torch import Tensor

from adapter_cost import vit_small
from cplsr.backbones.backbone import Backbone
from cplsr.backbones.load import load_backbone
from cplsr.data.decode import decode
from cplsr.data.domain import Domain
from cplsr.data.folder import open_folder
from cplsr.data.procedural import make_domain
from cplsr.environment import keep_freed_memory
from cplsr.evaluation.embed import embed_domain

DRAWN, CLASSES, SIDE, BATCH = 64, 4, 256, 64


def make_images(root: Path, count: int) -> Domain:
    """`count` JPEGs of 256 × 256 pixels, enlarged procedural pictures; only 64 are drawn, the others turned copies."""
    pictures = make_domain("landcover", "train")
    numbers = np.linspace(0, len(pictures.labels) - 1, min(DRAWN, count)).astype(int)
    drawn = [
        Image.fromarray(pictures.render(int(number))).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        for number in numbers
    ]
    for number in range(count):
        path = root / f"class {number % CLASSES}" / f"{number:04}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn[number % len(drawn)].rotate(90 * (number // len(drawn))).save(path, quality=90)
    return open_folder(root)


def in_memory(domain: Domain, size: int) -> Tensor:
    """All pixels of the domain at once."""
    return torch.cat([batch.pixels for batch in decode(domain, size, batch_size=BATCH)])


@torch.inference_mode()
def embed_tensors(backbone: Backbone, pixels: Tensor) -> Tensor:
    """The bare backbone, a batch after the other."""
    return torch.cat([backbone(part) for part in pixels.split(BATCH)])


def decode_all(domain: Domain, size: int) -> int:
    """Decode as `embed_domain` does and throw the pixels away."""
    return sum(len(batch.indices) for batch in decode(domain, size, batch_size=BATCH))


def rates(backbone: Backbone, domain: Domain, repetitions: int) -> dict[str, float]:
    """Images per second from files, from memory, and of decoding alone; both embeddings must be the same."""
    pixels = in_memory(domain, backbone.image_size)
    from_files = torch.from_numpy(embed_domain(backbone, domain, batch_size=BATCH).vectors)
    torch.testing.assert_close(from_files, embed_tensors(backbone, pixels))
    sides = {
        "files": partial(embed_domain, backbone, domain, batch_size=BATCH),
        "memory": partial(embed_tensors, backbone, pixels),
        "decoding": partial(decode_all, domain, backbone.image_size),
    }
    return {name: len(domain) / seconds for name, seconds in interleaved(sides, repetitions).items()}


def main() -> None:
    """Measure the claim, and print the two figures that have no goal."""
    options = arguments(__doc__ or "")
    keep_freed_memory()  # as `load_backbone` does
    with tempfile.TemporaryDirectory() as folder:
        domain = make_images(Path(folder), 128 if options.quick else 512)
        kilobytes = sum(file.stat().st_size for file in Path(folder).rglob("*.jpg")) / len(domain) / 1024
        print(f"{len(domain)} JPEGs of {SIDE} × {SIDE} pixels, {kilobytes:.0f} KB each on average")
        large = rates(vit_small(), domain, 3 if options.quick else 7)
        small = rates(load_backbone("embedded"), domain, 3 if options.quick else 7)
    for name, seen in (("ViT-S/16", large), ("embedded", small)):
        print(
            f"{name:<9} from files {seen['files']:.4g} images/s, from memory {seen['memory']:.4g} "
            f"(ratio {seen['files'] / seen['memory']:.3f}), decoding alone {seen['decoding']:.4g}"
        )
    claim = Claim("ViT-S/16, images/s from JPEGs against from memory", large["files"], large["memory"], "higher", 0.85)
    report([claim], options.json)


if __name__ == "__main__":
    main()
