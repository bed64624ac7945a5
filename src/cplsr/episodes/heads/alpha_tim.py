"""α-TIM: class weights that make the answers to the queries certain, without forcing the classes to be equally many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from cplsr.declared import above, between
from cplsr.episodes.heads.head import Head, Task, one_hot
from cplsr.episodes.prototypes import normalize


@final
@dataclass(frozen=True)
class AlphaTim(Head):
    """CE(support) − H_α(mean of p_i) + mean of H_α(p_i) is minimized over class weights w_k that start as prototypes.

    p_i = softmax_k(−t/2 ‖z_i − w_k‖²) on embeddings of length one, and H_α(p) = (1 − Σ p^α) / (α − 1) is Tsallis'
    entropy (Veilleux and others, 2021). Adam takes its steps along the embedding's own axes, so that this head alone
    needs the embeddings themselves.

    Attributes:
        alpha: `None` is 2 where every class has one image, and 7 otherwise.
        sharpness: The factor t.
    """

    alpha: Annotated[float, above(1, 100)] | None = None
    sharpness: Annotated[float, above(0, 1e4)] = 15.0
    rate: Annotated[float, above(0, 1)] = 1e-4
    steps: Annotated[int, between(0, 10**6)] = 1000

    name: ClassVar[str] = "alpha_tim"
    together: ClassVar[bool] = True
    temperature: ClassVar[float | None] = 1.0

    def answer(self, task: Task) -> Float[Tensor, "*episodes queries way"]:
        """See `Head.answer`."""
        support, queries = normalize(task.support), normalize(task.queries)
        alpha = self.alpha or (2.0 if len(task.labels) == task.way else 7.0)
        truth = one_hot(task.labels, task.way, support)
        with torch.enable_grad():
            weights = ((truth / truth.sum(dim=0)).T @ support).requires_grad_()
            optimizer = torch.optim.Adam([weights], lr=self.rate)
            for _ in range(self.steps):
                of_support, of_queries = self._logits(support, weights), self._logits(queries, weights)
                fit = -(truth * of_support.log_softmax(dim=-1)).sum(dim=-1).mean(dim=-1)
                shares = of_queries.softmax(dim=-1)
                uncertainty = _tsallis(shares, alpha).mean(dim=-1) - _tsallis(shares.mean(dim=-2), alpha)
                optimizer.zero_grad()
                (fit + uncertainty).sum().backward()
                optimizer.step()
        return self._logits(queries, weights.detach())

    def _logits(
        self, images: Float[Tensor, "*episodes images dim"], weights: Float[Tensor, "*episodes way dim"]
    ) -> Float[Tensor, "*episodes images way"]:
        """−t/2 ‖z − w‖², but for −t/2 ‖z‖², which is the same for all classes."""
        lengths = weights.square().sum(dim=-1)[..., None, :]
        return self.sharpness * (images @ weights.transpose(-1, -2) - lengths / 2)


def _tsallis(shares: Float[Tensor, "*shape way"], alpha: float) -> Float[Tensor, "*shape"]:
    return (1 - shares.pow(alpha).sum(dim=-1)) / (alpha - 1)
