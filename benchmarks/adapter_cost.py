"""What each adapter costs on ViT-S/16 shapes at 224 px: forward, training step, parameters, memory.

    python benchmarks/adapter_cost.py [--quick] [--json FILE]

Every figure is relative to the frozen backbone measured in the same rounds, on the same weights in memory: the adapters
are put on one backbone in turn (but for LoRA and the merged model, which have weights of their own). The weights are
random: they do not matter to time.
"""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from claims import Claim, arguments, interleaved, report
from transformers import ViTConfig, ViTModel

from cplsr import attach, merge
from cplsr.backbones.backbone import Backbone
from cplsr.backbones.block_points import BlockPoints
from cplsr.environment import keep_freed_memory

ADAPTERS = {
    "coalescent": ("coalescent", {}),
    "coalescent shared": ("coalescent", {"sharing": "shared"}),
    "coalescent mahalanobis": ("coalescent", {"constraint": "mahalanobis"}),
    "attn_scale": ("attn_scale", {}),
    "soft_prompts 2": ("soft_prompts", {"length": 2}),
    "soft_prompts 8": ("soft_prompts", {"length": 8}),
    "residual": ("residual", {}),
    "lora": ("lora", {}),
}


def vit_small() -> Backbone:
    """ViT-S/16: 12 blocks, 384 wide, 6 heads of 64."""
    torch.manual_seed(0)
    config = ViTConfig(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, intermediate_size=1536)
    model = ViTModel(config, add_pooling_layer=False)
    return Backbone(model, source="random ViT-S/16", mean=(0.5,) * 3, std=(0.5,) * 3)


def adapted(frozen: Backbone, name: str) -> Backbone:
    """A backbone with one adapter, moved off its starting point as training would; LoRA gets weights of its own."""
    kind, options = ADAPTERS[name]
    backbone = attach(copy.deepcopy(frozen) if kind == "lora" else frozen, kind, **options)
    with torch.no_grad():
        for parameter in backbone.parameters():
            if parameter.requires_grad:
                parameter.add_(0.01 * torch.randn_like(parameter))
    return backbone


@dataclass(frozen=True)
class Side:
    """A backbone and the adapter that is put on it for the measurement."""

    backbone: Backbone
    adapter: BlockPoints | None

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        """Embed with this adapter."""
        self.backbone.adapter = self.adapter
        return self.backbone(images)


def make_sides() -> dict[str, Side]:
    """Frozen, every adapter, and the merged coalescent projections."""
    frozen = vit_small()
    sides = {"frozen": Side(frozen, None)}
    for name in ADAPTERS:
        backbone = adapted(frozen, name)
        sides[name] = Side(backbone, backbone.adapter)
        if name == "coalescent":
            merged = merge(backbone)
            sides["merged"] = Side(merged, None)
        frozen.adapter = None
    return sides


def forward(side: Side, images: torch.Tensor) -> Callable[[], object]:
    """One embedding pass without gradients."""

    def run() -> None:
        with torch.inference_mode():
            side.embed(images)

    return run


def training_step(side: Side, images: torch.Tensor) -> Callable[[], object]:
    """Forward and backward to the adapter's parameters."""
    direction = torch.randn(side.backbone.dim)

    def run() -> None:
        side.backbone.zero_grad(set_to_none=True)
        (side.embed(images) @ direction).sum().backward()

    return run


def peak_memory(name: str, batch: int) -> float:
    """Peak resident memory of a training step above that of loading the model, in MB, in a process of its own."""
    result = subprocess.run(
        [sys.executable, __file__, "--memory-of", name, str(batch)], capture_output=True, text=True, check=True
    )
    return float(result.stdout.split()[-1])


def print_peak_memory(name: str, batch: int) -> None:
    """The other side of `peak_memory`; Linux forgets the old peak when told to."""
    torch.set_num_threads(2)
    backbone = adapted(vit_small(), name)
    step = training_step(Side(backbone, backbone.adapter), torch.randn(batch, 3, 224, 224))
    Path("/proc/self/clear_refs").write_text("5")
    before = _peak_kilobytes()
    step()
    print((_peak_kilobytes() - before) / 1024)


def _peak_kilobytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def main() -> None:
    """Measure, print the table, then the claims."""
    options = arguments(__doc__ or "")
    keep_freed_memory()  # as load_backbone does
    batch, repetitions = (8, 6) if options.quick else (32, 11)
    images = torch.randn(batch, 3, 224, 224)
    sides = make_sides()
    forwards = interleaved({name: forward(side, images) for name, side in sides.items()}, repetitions)
    steps = interleaved({name: training_step(sides[name], images) for name in ADAPTERS}, repetitions)
    print(
        f"ViT-S/16 at 224 px, batch {batch}, fp32, {torch.get_num_threads()} threads; times relative to frozen forward"
    )
    weighed = ("coalescent", "attn_scale", "soft_prompts 2", "residual") if options.quick else tuple(ADAPTERS)
    print(f"{'':<24}{'parameters':>12}{'forward':>10}{'step':>10}{'peak MB':>10}")
    for name, side in sides.items():
        count = 0 if side.adapter is None else sum(p.numel() for p in side.adapter.parameters())
        step = f"{steps[name] / forwards['frozen']:.3f}x" if name in steps else "-"
        memory = f"{peak_memory(name, batch):.0f}" if name in weighed else "-"
        print(f"{name:<24}{count:>12,}{forwards[name] / forwards['frozen']:>9.3f}x{step:>10}{memory:>10}")
    cheapest = min((name for name in steps if not name.startswith("coalescent")), key=lambda name: steps[name])
    ours = steps["coalescent"]
    report(
        [
            Claim("coalescent forward (s) against frozen", forwards["coalescent"], forwards["frozen"], "lower", 1.03),
            Claim("merged forward (s) against frozen", forwards["merged"], forwards["frozen"], "lower", 1.02),
            Claim(f"coalescent step (s) against {cheapest}", ours, steps[cheapest], "lower", 1.05),
            Claim("coalescent step (s) against attn_scale", ours, steps["attn_scale"], "lower", 1.0),
            Claim("coalescent step (s) against soft_prompts 2", ours, steps["soft_prompts 2"], "lower", 1.0),
        ],
        options.json,
    )


if __name__ == "__main__":
    if "--memory-of" in sys.argv:
        print_peak_memory(sys.argv[-2], int(sys.argv[-1]))
    else:
        main()
