"""Tuning once on a support set: the class token or registers, and a linear head that teaches them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from cplsr.adapters.tokens import add_tokens, remove_tokens
from cplsr.backbones.backbone import Backbone
from cplsr.declared import Declared, between, fit_arguments
from cplsr.episodes.prototypes import cosine_logits, normalize, prototypes, query_targets
from cplsr.errors import InputError
from cplsr.evaluation.adapting import Adaptation, Query, Support
from cplsr.methods.pmf import Images, augment
from cplsr.settings.numbers import LearningRate

TUNED = "tuned"
"""What the name of a model that was tuned on the support set gets at its end."""

AT_ONCE = 64
"""Images in a step, at most; from larger support sets each step draws as many."""


@dataclass
class SupportTuning(Declared, Adaptation):
    """Tune tokens on the support set by the loss of a linear head on augmented images.

    The head's weights begin as prototypes, and its scores are 20 · cos(embedding, weight). In an evaluation it answers,
    as in the papers; a classifier has its own head on the tuned embeddings, so that classes may come and go.

    Attributes:
        answer: What answers the queries of an evaluation: the linear head, or prototypes of the tuned embeddings.
        tokens: What is tuned: the class token, registers (new tokens beside it), or both.
        steps: Of AdamW; `lr` is of the tokens, `head_lr` of the linear head, `weight_decay` of both.
        one_shot: Also tune where classes have fewer than two images on average, which is left out otherwise.
    """

    whole_backbone: ClassVar[bool] = False

    answer: Literal["linear", "prototypes"] = "linear"
    tokens: Literal["class_token", "registers", "both"] = "class_token"
    registers: Annotated[int, between(1, 1000)] = 16
    steps: Annotated[int, between(1, 1_000_000)] = 50
    lr: LearningRate = 1e-2
    head_lr: LearningRate = 1e-3
    weight_decay: Annotated[float, between(0, 1000)] = 0.01
    one_shot: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.options = self.as_dict()

    def why_not(self, shot: float) -> str:
        """Say why so few images of a class are not tuned on; empty where they are."""
        if shot >= 2 or self.one_shot:
            return ""
        return (
            f"not tuned on the support set, because {shot:g} image of a class says too little of what its images have "
            "in common: give one_shot=true to tune all the same"
        )

    def logits(
        self, backbone: Backbone, support: Support, query: Query, generator: torch.Generator
    ) -> Float[Tensor, "queries way"]:
        """Tune, predict; the backbone is as before when it returns."""
        images, grid = support.flatten(0, 1), support.shape[:2]
        try:
            head = self.tune(backbone, images, query_targets(*grid), generator).cpu()
            with torch.inference_mode():
                rows = backbone(torch.cat([images, query])).cpu()
        finally:
            remove_tokens(backbone)
        if self.answer == "prototypes":
            head = prototypes(rows[: len(images)].unflatten(0, grid))
        return cosine_logits(rows[len(images) :], head)

    def tune(
        self,
        backbone: Backbone,
        images: Images,
        labels: Int[Tensor, "images"],
        generator: torch.Generator,
        scale: Float[Tensor, "dim"] | None = None,
    ) -> Float[Tensor, "classes dim"]:
        """Put new tokens on the backbone, over its adapter if it has one, and tune them; nothing else of it changes.

        `remove_tokens` gives the backbone back as it was. `labels` count from 0, `scale` are factors of an embedding's
        numbers, where what answers afterwards weighs them. The result are the weights of the linear head.
        """
        if backbone.dtype == torch.bfloat16:
            raise InputError("tuning on the support set trains weights, for which bf16 is too coarse: give fp32")

        def embed(pixels: Tensor) -> Tensor:
            embeddings = backbone(pixels)
            return embeddings if scale is None else embeddings * scale.to(embeddings)

        labels = labels.to(backbone.device)
        head = normalize(_prototypes(embed, images, labels)).requires_grad_()
        registers = 0 if self.tokens == "class_token" else self.registers
        seed = int(torch.randint(2**31, (1,), generator=generator))  # so that every episode has start values of its own
        tokens = add_tokens(backbone, class_token=self.tokens != "registers", registers=registers, seed=seed).own()
        groups = [{"params": tokens, "lr": self.lr}, {"params": [head], "lr": self.head_lr}]
        optimizer = torch.optim.AdamW(groups, weight_decay=self.weight_decay)
        for _ in range(self.steps):
            chosen = torch.randperm(len(images), generator=generator)[:AT_ONCE]
            with torch.enable_grad():
                logits = cosine_logits(embed(augment(images[chosen], generator)), head)
                loss = cross_entropy(logits, labels[chosen.to(labels.device)])
            optimizer.zero_grad(set_to_none=True)
            loss.backward(inputs=[*tokens, head])  # the adapter under the tokens may have some that must not learn
            optimizer.step()
        return head.detach()


def make_tuning(options: Mapping[str, Any]) -> SupportTuning:
    """Make it from options by name."""
    return SupportTuning(**fit_arguments(SupportTuning, options, "tuning on the support set"))


def _prototypes(embed: Callable[[Tensor], Tensor], images: Images, labels: Int[Tensor, "images"]) -> Tensor:
    """Mean embedding of each class, (classes, dim)."""
    with torch.no_grad():
        rows = torch.cat([embed(part) for part in images.split(AT_ONCE)])
        member = one_hot(labels).to(rows)
        return member.T @ rows / member.sum(dim=0)[:, None]
