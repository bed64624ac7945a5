"""Pre-train, meta-train, fine-tune (PMF)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from jaxtyping import Float, UInt8
from msgspec import Meta
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from cplsr.adapters.attach import adapter_of
from cplsr.backbones.backbone import Backbone
from cplsr.data.augment import color_jitter, flip, sometimes, translate
from cplsr.declared import Declared, between, fit
from cplsr.episodes.prototypes import accuracy, cosine_logits, prototypes, query_targets
from cplsr.errors import InputError
from cplsr.evaluation.adapting import Adaptation, Query, Support
from cplsr.methods.base import TRANSFORMER_SETTINGS, Method, Size, prototype_logits, prototype_loss
from cplsr.settings.numbers import Temperature
from cplsr.training.objective import Embed, Loss, Objective, TrainingEpisode

SCALE = 10.0
"""Where the learned factor of the cosines starts, and what it is at test time."""

Images = UInt8[Tensor, "images 3 size size"]


class MetaTraining(Objective):
    """Prototype loss s · cos(query, prototype) with a learned factor s.

    Hu et al., "Pushing the Limits of Simple Pipelines for Few-Shot Learning: External Data and Fine-Tuning Make a
    Difference", CVPR 2022. Made for transformers, so nothing had to be ported.

    Deviations from the authors' program:

    - It also learns a number that is added to all cosines, which the softmax cancels.
    - It trains for 100 epochs of 2,000 episodes. Its SGD at 5e-5 (divided by eight with half precision on one GPU)
      needs as many; shorter runs should be given a higher rate.
    - Pieces of base images have 8 to 100 % of the area, as in the other methods, there 5 to 100 %.
    - The rates of the cosine schedule end at 0, there at 1e-6. Rates and optimizer are for the whole backbone only.
    """

    name: ClassVar[str] = "pmf"

    def __init__(self, *, scale: Temperature = SCALE) -> None:
        super().__init__()
        self.options = {"scale": fit(scale, Temperature, "scale")}
        self.scale = nn.Parameter(torch.tensor(scale))

    @property
    def temperature(self) -> float:
        """The learned factor, where others have a fixed one."""
        return self.scale.item()

    def loss(self, embed: Embed, episode: TrainingEpisode, partner: TrainingEpisode | None) -> Loss:
        """Prototype loss of the episode."""
        return prototype_loss(episode, prototype_logits(episode, embed(episode.images), self.scale))


@dataclass
class FineTuning(Declared, Adaptation):
    """Fine-tune on the support set: prototypes of the clean images, loss of augmented copies of the same images.

    The rate is chosen on the support set alone: the first image of each class is tuned on for `trial_steps`, and the
    others are what accuracy is measured on. With one shot there is nothing to choose with, and nothing is tuned.

    Deviations from the authors' program:

    - They report rates chosen per domain with labeled queries of five episodes. Here no query label is ever seen: the
      choice is that of their other mode, which has no such labels.
    - The factor of the cosines is 10, not what it was after training.
    - Images are augmented one by one, within the range of pictures; there colors are changed after normalization, a
      little more widely, and a whole batch is left as it is one time in ten (see `augment`).

    Attributes:
        rates: Learning rates to choose from; 0 is no fine-tuning.
        steps: Of Adam at a constant rate; the authors take 40 or 100.
        trial_steps: Of the choice.
    """

    rates: Annotated[tuple[Size, ...], Meta(min_length=1)] = (0.0, 1e-4, 5e-4, 1e-3)
    steps: Annotated[int, between(1, 1_000_000)] = 40
    trial_steps: Annotated[int, between(1, 1_000_000)] = 50

    def __post_init__(self) -> None:
        """Check the options, and bring the rates into order."""
        super().__post_init__()
        self.rates = tuple(sorted(self.rates))
        self.options = self.as_dict()

    def logits(
        self, backbone: Backbone, support: Support, query: Query, generator: torch.Generator
    ) -> Float[Tensor, "queries way"]:
        """Choose the rate, tune, predict; the backbone's parameters are as before when it returns."""
        rate = self.choose_rate(backbone, support, generator)
        with _restored(backbone):
            tune(backbone, support, rate=rate, steps=self.steps, generator=generator)
            return predict(backbone, support, query)

    def choose_rate(self, backbone: Backbone, support: Support, generator: torch.Generator) -> float:
        """The rate with the highest accuracy on support images that were not tuned on; of equals the smallest."""
        way, shot = support.shape[:2]
        if shot < 2:
            return 0.0
        known, held = support[:, :1], support[:, 1:].flatten(0, 1)
        targets = query_targets(way, shot - 1)
        draws = generator.get_state()
        accuracies = []
        for rate in self.rates:
            generator.set_state(draws)  # the same augmented images for every rate
            with _restored(backbone):
                tune(backbone, known, rate=rate, steps=self.trial_steps, generator=generator)
                accuracies.append(accuracy(predict(backbone, known, held), targets).item())
        return self.rates[accuracies.index(max(accuracies))]


def tune(backbone: Backbone, support: Support, *, rate: float, steps: int, generator: torch.Generator) -> None:
    """Adam steps of the backbone's adapter: augmented copies of the support set against its clean prototypes."""
    if rate == 0:
        return
    parameters = [parameter for parameter in adapter_of(backbone).parameters() if parameter.requires_grad]
    if not parameters:
        raise InputError("the adapter has no parameters, so there is nothing to tune: evaluate it without --method pmf")
    optimizer = torch.optim.Adam(parameters, lr=rate)
    images, grid = support.flatten(0, 1), support.shape[:2]
    targets = query_targets(*grid).to(backbone.device)
    for _ in range(steps):
        with torch.enable_grad():
            clean, changed = backbone(torch.cat([images, augment(images, generator)])).chunk(2)
            loss = cross_entropy(cosine_logits(changed, prototypes(clean.unflatten(0, grid)), SCALE), targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def augment(
    images: Images, generator: torch.Generator, *, jitter: float = 0.4, shift: float = 0.125, chance: float = 0.9
) -> Images:
    """Flip half of the images; jitter the colors, and move by up to a share of the side, each with some chance."""
    changed = flip(images.float() / 255, generator)
    changed = sometimes(color_jitter(changed, jitter, generator), changed, chance, generator)
    changed = sometimes(translate(changed, shift, generator), changed, chance, generator)
    return (changed * 255).round().to(torch.uint8)


def predict(backbone: Backbone, support: Support, query: Query) -> Float[Tensor, "queries way"]:
    """Scores of the queries for the prototypes of the support set."""
    with torch.inference_mode():
        rows = backbone(torch.cat([support.flatten(0, 1), query])).cpu()
        known = support.shape[0] * support.shape[1]
        return cosine_logits(rows[known:], prototypes(rows[:known].unflatten(0, support.shape[:2])), SCALE)


@contextmanager
def _restored(backbone: Backbone) -> Iterator[None]:
    """Whatever happens to the adapter's parameters inside, they are afterwards what they were before."""
    adapter = adapter_of(backbone)
    before = {name: tensor.detach().clone() for name, tensor in adapter.state_dict().items()}
    try:
        yield
    finally:
        adapter.load_state_dict(before)


METHOD = Method("pmf", "Hu et al., CVPR 2022", MetaTraining, FineTuning, settings=TRANSFORMER_SETTINGS)
