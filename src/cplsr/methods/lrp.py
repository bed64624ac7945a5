"""Explanation-guided training by layer-wise relevance propagation (LRP)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from cplsr.episodes.prototypes import cosine_logits, normalize
from cplsr.methods.base import Method, Size, centers_and_queries, prototype_loss
from cplsr.settings.numbers import Temperature
from cplsr.training.objective import Embed, Loss, Objective, TrainingEpisode

STABILIZER = 0.01
"""Added to the size of a score before relevance is divided by it (the ε of LRP-ε), and to a probability in its odds."""


@dataclass(eq=False)
class ExplanationGuidance(Objective):
    """Features that a prediction rests on are strengthened, the others weakened, and the prediction made again.

    Sun et al., "Explanation-Guided Training for Cross-Domain Few-Shot Classification", ICPR 2021. Each class starts
    with the relevance R_c = log((N − 1) p_c / (1 − p_c)), zero where p_c is chance; LRP hands it down to the inputs of
    the classifier; it is divided by its largest absolute value, and w = 1 + R, in 0..2, multiplies the inputs of a
    second prediction. Loss: cross-entropy + `guidance` · cross-entropy of the second prediction. In training only. As
    in the authors' program the weights are constants: no gradient goes through the explanation.

    Deviations from the authors' program:

    - They explain a relation network, cross attention and a graph network. For the cosine of all methods here the rule
      has a closed form, see `relevance`: the inputs are a query and a prototype, each pair with weights of its own.
    - N − 1 is always 4 there, for five classes.
    - `guidance` is given for one shot and for five; here other numbers above one have that of five.
    - Adam at 5e-5 instead of 1e-3 (see `cplsr.methods.base.BACKBONE_SETTINGS`).
    """

    name: ClassVar[str] = "lrp"

    guidance: Size | None = None
    """Weight of the second prediction; default: the authors', 0.5 with one shot and 1 with more."""
    temperature: Temperature = 20.0

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """Prototype loss of the episode as it is, and with its features weighted by their relevance."""
        centers, queries = centers_and_queries(episode, embed(episode.images))
        loss, right = prototype_loss(episode, cosine_logits(queries, centers, self.temperature))
        weights = relevance_weights(relevance(queries.detach(), centers.detach(), self.temperature))
        guided, _ = prototype_loss(episode, self.temperature * weighted_cosines(queries, centers, weights))
        guidance = (0.5 if episode.shot == 1 else 1.0) if self.guidance is None else self.guidance
        return loss + guidance * guided, right


def relevance(
    queries: Float[Tensor, "queries dim"], centers: Float[Tensor, "way dim"], temperature: float
) -> Float[Tensor, "queries way dim"]:
    """R_c · z_i / Σ_j z_j with z_i = q_i p_i / (‖q‖ ‖p‖): the share of every channel in the score of every class.

    LRP-ε for a linear layer. A cosine is linear in the query once both lengths are taken as given, and just as linear
    in the prototype, so that channel i of both has this relevance. Summed over the channels it gives R_c back, but for
    ε. The authors' features, and so their scores, are never negative; here a negative score turns its shares' signs.
    """
    shares = normalize(queries)[:, None] * normalize(centers)[None]
    scores = shares.sum(dim=-1)
    stable = scores + STABILIZER * torch.where(scores < 0, -1.0, 1.0)
    return (class_relevance(temperature * scores) / stable)[..., None] * shares


def class_relevance(logits: Float[Tensor, "queries way"]) -> Float[Tensor, "queries way"]:
    """log((N − 1) (p_c + ε) / (1 − p_c + ε)) of the softmax p: at most 6 for five classes, at least −3.2."""
    chances = logits.softmax(dim=-1)
    return torch.log((logits.shape[-1] - 1) * (chances + STABILIZER) / (1 - chances + STABILIZER))


def relevance_weights(relevances: Float[Tensor, "*pairs dim"]) -> Float[Tensor, "*pairs dim"]:
    """1 + R / max|R| over the channels: 0 for the strongest evidence against, 2 for the strongest in favor."""
    largest = relevances.abs().amax(dim=-1, keepdim=True)
    return 1 + relevances / torch.where(largest > 0, largest, 1)


def weighted_cosines(
    queries: Float[Tensor, "queries dim"], centers: Float[Tensor, "way dim"], weights: Float[Tensor, "queries way dim"]
) -> Float[Tensor, "queries way"]:
    """cos(w ⊙ q, w ⊙ p) of every query and prototype with the weights of the pair."""
    return (normalize(weights * queries[:, None]) * normalize(weights * centers[None])).sum(dim=-1)


METHOD = Method("lrp", "Sun et al., ICPR 2021", ExplanationGuidance)
