"""Images per second of a frozen ViT-S/16 at 224 px: ours, plain transformers, and ONNX Runtime, in one run.

    python benchmarks/throughput.py [--quick] [--json FILE]

The same random weights and the same images for all; each side gets the batch size it is fastest at. Half precision
counts only if its embeddings point the same way (cosine to fp32 at least 0.999).
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from claims import Claim, arguments, interleaved, report
from torch import Tensor, nn

from adapter_cost import vit_small
from cplsr.backbones.backbone import Backbone
from cplsr.environment import has_fast_bf16

Embed = Callable[[Tensor], Tensor]


class ClassToken(nn.Module):
    """The plain transformers model with the class token as its one output, for the ONNX export."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        """Images -> class tokens."""
        return self.model(pixels).last_hidden_state[:, 0]


def onnx_session(model: nn.Module) -> Embed:
    """The model in ONNX Runtime, two threads."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            ClassToken(model).eval(),
            (torch.randn(2, 3, 224, 224),),
            path,
            dynamo=True,
            input_names=["pixels"],
            output_names=["embedding"],
            dynamic_shapes={"pixels": {0: torch.export.Dim("batch")}},
            external_data=False,
            verbose=False,
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda images: torch.from_numpy(session.run(None, {"pixels": images.numpy()})[0])


def sides(backbone: Backbone) -> dict[str, Embed]:
    """Every way to embed; bf16 only where the processor multiplies it."""

    def plain(images: Tensor) -> Tensor:
        with torch.inference_mode():
            return backbone.model(images).last_hidden_state[:, 0]

    def ours(images: Tensor) -> Tensor:
        with torch.inference_mode():
            return backbone(images)

    found = {"transformers fp32": plain, "onnxruntime fp32": onnx_session(backbone.model), "cplsr fp32": ours}
    if has_fast_bf16(torch.device("cpu")):
        short = copy.deepcopy(backbone).bfloat16()

        def ours_bf16(images: Tensor) -> Tensor:
            with torch.inference_mode():
                return short(images)

        found["cplsr bf16"] = ours_bf16
    return found


def main() -> None:
    """Find each side's best batch size, then let the sides take turns."""
    options = arguments(__doc__ or "")
    backbone = vit_small()
    embed = sides(backbone)
    batches = (8, 32) if options.quick else (1, 4, 8, 16, 32, 64)
    total = 32 if options.quick else 64
    images = torch.randn(total, 3, 224, 224)
    reference = embed["transformers fp32"](images)
    for name, run in embed.items():
        cosine = torch.cosine_similarity(run(images), reference).min().item()
        print(f"{name:<20} smallest cosine to transformers fp32: {cosine:.6f}")
        if cosine < 0.999:
            raise SystemExit(f"{name} does not give the same embeddings")

    def all_images(run: Embed, batch: int) -> Callable[[], object]:
        return lambda: [run(part) for part in images.split(batch)]

    trials = interleaved(
        {f"{name}|{batch}": all_images(run, batch) for name, run in embed.items() for batch in batches}, 2
    )
    best = {name: min(batches, key=lambda batch, name=name: trials[f"{name}|{batch}"]) for name in embed}
    seconds = interleaved(
        {name: all_images(run, best[name]) for name, run in embed.items()}, 5 if options.quick else 11
    )
    rates = {name: total / value for name, value in seconds.items()}
    for name, rate in rates.items():
        print(f"{name:<20} {rate:>7.2f} images/s at batch {best[name]}")
    if "cplsr bf16" not in rates:
        print("this processor has no bf16 multiplication (avx512_bf16 or amx_bf16): bf16 is left out")
    fastest = max((name for name in rates if name.startswith("cplsr")), key=lambda name: rates[name])
    plain, onnx = rates["transformers fp32"], rates["onnxruntime fp32"]
    claims = [
        Claim("cplsr fp32 against transformers fp32 (images/s)", rates["cplsr fp32"], plain, "higher", 1.0),
        Claim(f"{fastest} against onnxruntime fp32 (images/s)", rates[fastest], onnx, "higher", 1.0),
        Claim(f"{fastest} against transformers fp32 (images/s)", rates[fastest], plain, "higher", 1.9),
    ]
    report(claims, options.json)


if __name__ == "__main__":
    main()
