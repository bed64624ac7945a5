"""Images per second of a training step: ours against the plainest correct loop, in one run, with both loss curves.

    python benchmarks/training.py [--quick] [--json FILE]

The other side is what one would write first: the transformers model, C multiplied to the queries by a forward hook,
fp32, the whole episode in one batch. Same weights, same images, same loss, same optimizer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from claims import Claim, arguments, interleaved_processes, report
from torch import Tensor, nn
from transformers import ViTConfig, ViTModel

from cplsr import attach
from cplsr.backbones.backbone import Backbone
from cplsr.environment import has_fast_bf16, keep_freed_memory
from cplsr.settings.training import TrainingSettings
from cplsr.training.objective import joint_loss

WAY, SHOT, QUERY = 5, 5, 15
SIZES = {"ViT-S/16": (384, 6), "ViT-Ti/16": (192, 3)}
LR = 1e-3


def model(dim: int, heads: int) -> ViTModel:
    """A ViT of 12 blocks with random weights."""
    torch.manual_seed(0)
    config = ViTConfig(hidden_size=dim, num_hidden_layers=12, num_attention_heads=heads, intermediate_size=4 * dim)
    return ViTModel(config, add_pooling_layer=False).eval().requires_grad_(False)


class Plain:
    """The straightforward way: a hook on every query projection."""

    def __init__(self, dim: int, heads: int) -> None:
        self.model = model(dim, heads)
        self.C = [nn.Parameter(torch.eye(dim // heads).repeat(heads, 1, 1)) for _ in self.model.layers]
        for layer, C in zip(self.model.layers, self.C, strict=True):
            layer.attention.q_proj.register_forward_hook(self._multiply(C))
        self.optimizer = torch.optim.AdamW(self.C, lr=LR, weight_decay=0.0)

    @staticmethod
    def _multiply(C: nn.Parameter) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
        def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            split = output.unflatten(-1, C.shape[:2]).transpose(1, 2)
            return (split @ C).transpose(1, 2).flatten(2)

        return hook

    def embed(self, images: Tensor) -> Tensor:
        """Class tokens."""
        return self.model(images).last_hidden_state[:, 0]


class Ours:
    """The same through `Backbone` and `attach`, in bf16 where the processor multiplies it."""

    def __init__(self, dim: int, heads: int) -> None:
        self.backbone = Backbone(model(dim, heads), source="random", mean=(0.5,) * 3, std=(0.5,) * 3)
        if has_fast_bf16(torch.device("cpu")):
            self.backbone.bfloat16()
        attach(self.backbone, "coalescent")
        parameters = [p for p in self.backbone.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(parameters, lr=LR, weight_decay=0.0)

    def embed(self, images: Tensor) -> Tensor:
        """Class tokens."""
        return self.backbone(images)


def prepare(side: str, dim: int, heads: int) -> Callable[[], object]:
    """One optimizer step on the same episode every time; ours is set up as `load_backbone` does."""
    if side == "ours":
        keep_freed_memory()
    learner = Ours(dim, heads) if side == "ours" else Plain(dim, heads)
    images = episode()

    def step() -> float:
        learner.optimizer.zero_grad(set_to_none=True)
        embeddings = learner.embed(images).unflatten(0, (WAY, SHOT + QUERY))
        loss, _ = joint_loss(embeddings, SHOT, None, TrainingSettings())
        loss.backward()
        learner.optimizer.step()
        return loss.item()

    return step


def episode() -> Tensor:
    """The images of one 5-way 5-shot episode."""
    return torch.randn(WAY * (SHOT + QUERY), 3, 224, 224, generator=torch.Generator().manual_seed(1))


def show_losses(dim: int, heads: int, steps: int) -> None:
    """The loss curves of both sides, which must be the same curve."""
    print("step     " + "".join(f"{number:>10}" for number in range(steps)))
    for side in ("plain", "ours"):
        step = prepare(side, dim, heads)
        print(f"{side:<9}" + "".join(f"{step():>10.5f}" for _ in range(steps)))


def main() -> None:
    """Both sizes, both sides, taking turns."""
    options = arguments(__doc__ or "")
    claims = []
    for name, (dim, heads) in SIZES.items():
        if options.quick and name == "ViT-S/16":
            continue
        print(f"\n{name} at 224 px, {WAY * (SHOT + QUERY)} images a step, {torch.get_num_threads()} threads")
        show_losses(dim, heads, 2 if options.quick else 5)
        sides = {side: partial(prepare, side, dim, heads) for side in ("plain", "ours")}
        seconds = interleaved_processes(sides, 3 if options.quick else 7)
        rates = {side: WAY * (SHOT + QUERY) / value for side, value in seconds.items()}
        claims.append(Claim(f"training step, {name} (images/s)", rates["ours"], rates["plain"], "higher", 1.6))
    if not has_fast_bf16(torch.device("cpu")):
        print("this processor has no bf16 multiplication (avx512_bf16 or amx_bf16): both sides are fp32")
    report(claims, options.json)


if __name__ == "__main__":
    main()
