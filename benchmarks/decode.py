"""Decoding keeps ahead of the backbone, in memory that does not grow with the data set.

Two claims, on JPEGs of 256 px that the script makes itself:
- images/s of `decode` with two workers against images/s of a ViT-S/16 (random weights, fp32, 224 px) on two threads;
- peak memory of decoding 20,000 images (6,000 with --quick) against that of 1,000, each in a fresh process, workers
  included.

    python benchmarks/decode.py [--quick] [--json FILE]
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from claims import Claim, arguments, interleaved, report
from PIL import Image

from cplsr.data.decode import decode
from cplsr.data.folder import open_folder

IMAGE_SIZE = 224
DIFFERENT_IMAGES = 200
CLASSES = 10


def make_images(root: Path, count: int) -> Path:
    """`count` JPEGs of 256 × 256 pixels in ten classes: 200 different ones, the rest hard links to them."""
    random = np.random.default_rng(0)
    originals: list[Path] = []
    for number in range(count):
        path = root / f"class {number % CLASSES}" / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        if number < DIFFERENT_IMAGES:
            # Smooth shapes with some grain compress to about what photographs of this size do.
            coarse = Image.fromarray(random.integers(0, 256, (24, 24, 3), dtype=np.uint8))
            smooth = np.asarray(coarse.resize((256, 256), Image.Resampling.BICUBIC), dtype=np.int16)
            grain = random.integers(-8, 9, smooth.shape)
            Image.fromarray((smooth + grain).clip(0, 255).astype(np.uint8)).save(path, quality=90)
            originals.append(path)
        else:
            os.link(originals[number % DIFFERENT_IMAGES], path)
    return root


def throughput(root: Path, repetitions: int, embedded: int) -> Claim:
    """Images per second of decoding all of `root`, and of embedding `embedded` images."""
    from transformers import ViTConfig, ViTModel

    domain = open_folder(root)
    config = ViTConfig(hidden_size=384, num_attention_heads=6, intermediate_size=1536, image_size=IMAGE_SIZE)
    backbone = ViTModel(config, add_pooling_layer=False).eval()
    batch = torch.randn(32, 3, IMAGE_SIZE, IMAGE_SIZE)

    def decode_all() -> None:
        images = sum(len(decoded.indices) for decoded in decode(domain, IMAGE_SIZE, workers=2))
        if images != len(domain):
            raise RuntimeError(f"{images} of {len(domain)} images were decoded")

    def embed() -> None:
        with torch.inference_mode():
            for _ in range(embedded // len(batch)):
                backbone(batch)

    seconds = interleaved({"decode": decode_all, "embed": embed}, repetitions)
    return Claim(
        "decoding vs ViT-S/16 fp32 forward, 224 px, 2 cores, images/s",
        ours=len(domain) / seconds["decode"],
        theirs=embedded / seconds["embed"],
        better="higher",
        goal=1.0,
    )


def peak_memory(root: Path) -> float:
    """Peak resident megabytes of a fresh process that decodes `root`, plus twice that of its largest worker."""
    command = [sys.executable, __file__, "--peak-of", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def _report_peak(root: Path) -> None:
    """What the fresh process of `peak_memory` does."""
    for _ in decode(open_folder(root), IMAGE_SIZE, workers=2):
        pass
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print((own + 2 * worker) / 1024)


def main() -> None:
    """Measure both claims."""
    options = arguments(__doc__.splitlines()[0])
    many = 6_000 if options.quick else 20_000
    with tempfile.TemporaryDirectory() as folder:
        small = make_images(Path(folder) / "small", 1_000)
        large = make_images(Path(folder) / "large", many)
        size = sum(file.stat().st_size for file in small.rglob("*.jpg")) / 1_000
        print(f"JPEGs of 256 × 256 pixels, {size / 1024:.0f} KB each on average")
        claims = [throughput(small, 2 if options.quick else 7, 64 if options.quick else 320)]
        peaks = {"small": [], "large": []}
        for _ in range(1 if options.quick else 3):
            peaks["small"].append(peak_memory(small))
            peaks["large"].append(peak_memory(large))
        claims.append(
            Claim(
                f"peak MB, {many:,} images vs 1,000, workers included",
                ours=float(np.median(peaks["large"])),
                theirs=float(np.median(peaks["small"])),
                better="lower",
                goal=1.1,
            )
        )
    report(claims, options.json)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak-of"]:
        _report_peak(Path(sys.argv[2]))
    else:
        main()
