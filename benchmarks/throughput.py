"""Images per second of a frozen ViT-S/16 at 224 px: ours, plain transformers, and ONNX Runtime, in one run.

    python benchmarks/throughput.py [--quick] [--json FILE]

The same random weights and the same images for all, each side in a process of its own and at the batch size it is
fastest at. Half precision counts only if its embeddings point the same way (cosine to fp32 at least 0.999).
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from claims import Claim, arguments, interleaved_processes, report
from torch import Tensor, nn

from adapter_cost import vit_small
from cplsr.environment import has_fast_bf16, keep_freed_memory

Embed = Callable[[Tensor], Tensor]
PLAIN, ONNX, OURS, OURS_BF16 = "transformers fp32", "onnxruntime fp32", "cplsr fp32", "cplsr bf16"


class ClassToken(nn.Module):
    """The plain transformers model with the class token as its one output, for the ONNX export."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        """Images -> class tokens."""
        return self.model(pixels).last_hidden_state[:, 0]


def export_onnx(path: Path) -> None:
    """The same weights as an ONNX file."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    torch.onnx.export(
        ClassToken(vit_small().model).eval(),
        (torch.randn(2, 3, 224, 224),),
        path,
        dynamo=True,
        input_names=["pixels"],
        output_names=["embedding"],
        dynamic_shapes={"pixels": {0: torch.export.Dim("batch")}},
        external_data=False,
        verbose=False,
    )


def onnx_embedder(path: Path) -> Embed:
    """ONNX Runtime with as many threads as torch."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda pixels: torch.from_numpy(session.run(None, {"pixels": pixels.numpy()})[0])


def embedder(side: str, onnx: Path) -> Embed:
    """One way to embed; ours is set up as `load_backbone` does."""
    if side == ONNX:
        return onnx_embedder(onnx)
    backbone = vit_small()
    if side == PLAIN:
        return torch.inference_mode()(lambda pixels: backbone.model(pixels).last_hidden_state[:, 0])
    keep_freed_memory()
    if side == OURS_BF16:
        backbone.bfloat16()
    return torch.inference_mode()(backbone)


def images(count: int) -> Tensor:
    """The same images everywhere."""
    return torch.randn(count, 3, 224, 224, generator=torch.Generator().manual_seed(1))


def prepare(side: str, onnx: Path, batch: int, total: int) -> Callable[[], object]:
    """What is timed: all images, `batch` at a time."""
    run, pixels = embedder(side, onnx), images(total)
    return lambda: [run(part) for part in pixels.split(batch)]


def check(sides: list[str], onnx: Path) -> None:
    """All sides give the same embeddings, or half precision nearly so."""
    pixels = images(8)
    reference = embedder(PLAIN, onnx)(pixels)
    for side in sides:
        cosine = torch.cosine_similarity(embedder(side, onnx)(pixels), reference).min().item()
        print(f"{side:<20} smallest cosine to transformers fp32: {cosine:.6f}")
        if cosine < 0.999:
            raise SystemExit(f"{side} does not give the same embeddings")


def best_batches(sides: list[str], onnx: Path, batches: tuple[int, ...], total: int) -> dict[str, int]:
    """The batch size at which each side is fastest."""
    if len(batches) == 1:
        return dict.fromkeys(sides, batches[0])
    trials = {f"{side}|{batch}": partial(prepare, side, onnx, batch, total) for side in sides for batch in batches}
    tried = interleaved_processes(trials, 3)
    return {side: min(batches, key=lambda batch, side=side: tried[f"{side}|{batch}"]) for side in sides}


def main() -> None:
    """Find each side's best batch size, then let the sides take turns."""
    options = arguments(__doc__ or "")
    fast_bf16 = has_fast_bf16(torch.device("cpu"))
    sides = [PLAIN, ONNX, OURS, *([OURS_BF16] if fast_bf16 else [])]
    batches, total = ((16,), 16) if options.quick else ((1, 4, 8, 16, 32, 64), 64)
    with tempfile.TemporaryDirectory() as folder:
        onnx = Path(folder) / "model.onnx"
        export_onnx(onnx)
        check(sides, onnx)
        best = best_batches(sides, onnx, batches, total)
        final = {side: partial(prepare, side, onnx, best[side], total) for side in sides}
        seconds = interleaved_processes(final, 7 if options.quick else 15)
    rates = {side: total / value for side, value in seconds.items()}
    for side, rate in rates.items():
        print(f"{side:<20} {rate:>7.2f} images/s at batch {best[side]}")
    if not fast_bf16:
        print("this processor has no bf16 multiplication (avx512_bf16 or amx_bf16): bf16 is left out")
    fastest = max((side for side in rates if side.startswith("cplsr")), key=lambda side: rates[side])
    report(
        [
            Claim("cplsr fp32 against transformers fp32 (images/s)", rates[OURS], rates[PLAIN], "higher", 1.0),
            Claim(f"{fastest} against onnxruntime fp32 (images/s)", rates[fastest], rates[ONNX], "higher", 1.0),
            Claim(f"{fastest} against transformers fp32 (images/s)", rates[fastest], rates[PLAIN], "higher", 1.9),
        ],
        options.json,
    )


if __name__ == "__main__":
    main()
