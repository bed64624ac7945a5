"""Pseudo-episodes: support and query embeddings of classes that exist in embedding space only."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from cplsr.episodes.streams import Stream, numbered_generator
from cplsr.errors import InputError
from cplsr.reservation.candidates import Candidates, base_novel, mix_classes, mixed_factors, novel_novel
from cplsr.reservation.statistics import ClassGaussians
from cplsr.settings.training import PseudoEpisodeRecipe


@dataclass(frozen=True, eq=False)
class PseudoEpisode:
    """Embeddings of `way` pseudo-classes, and in `classes` what each was mixed from."""

    support: Float[Tensor, "way shot dim"]
    query: Float[Tensor, "way query dim"]
    classes: Candidates


def sample(
    means: Float64[Tensor, "way dim"],
    factors: Float64[Tensor, "way dim dim"],
    count: int,
    *,
    generator: torch.Generator,
) -> Float64[Tensor, "way count dim"]:
    """`count` draws from each N(mean, LLᵀ): mean + Lz with z standard normal."""
    way, dim = means.shape
    noise = torch.randn(way, count, dim, generator=generator, dtype=torch.float64)
    return means[:, None, :] + noise @ factors.transpose(1, 2)


def choose_classes(
    gaussians: ClassGaussians, recipe: PseudoEpisodeRecipe, *, generator: torch.Generator
) -> tuple[Candidates, Float64[Tensor, "way dim dim"]]:
    """Mix candidates and keep the `way` best of them, with the Cholesky factors of their covariances (Eq. 7-12)."""
    pool = mix_classes(gaussians, recipe.candidates, generator=generator)
    alike = novel_novel(pool.means, similarity=recipe.novel_similarity)
    distinct = pool[alike.argsort(stable=True)[: recipe.survivors * recipe.way]]
    factors = mixed_factors(gaussians, distinct)
    away = base_novel(gaussians, distinct.means, factors).argsort(descending=True, stable=True)[: recipe.way]
    return distinct[away], factors[away]


def draw_pseudo_episode(
    gaussians: ClassGaussians, recipe: PseudoEpisodeRecipe, *, generator: torch.Generator
) -> PseudoEpisode:
    """One pseudo-episode: choose its classes, then sample K + K_q embeddings from each."""
    classes, factors = choose_classes(gaussians, recipe, generator=generator)
    drawn = sample(classes.means, factors, recipe.shot + recipe.query, generator=generator).float()
    if not torch.isfinite(drawn).all():
        raise InputError("pseudo-embeddings are too large for float32: rescale the embeddings")
    return PseudoEpisode(drawn[:, : recipe.shot], drawn[:, recipe.shot :], classes)


class PseudoEpisodeStream:
    """An endless numbered row of pseudo-episodes: number i depends on the statistics, the recipe, the seed and i alone.

    A training run that was stopped therefore asks for its next number and meets what it would have met. By default
    `pool` (E_P) episodes are drawn and used again and again: the first time in order, then in a new random order each
    time. With `online` every number is a fresh episode and nothing is kept.
    """

    def __init__(
        self,
        gaussians: ClassGaussians,
        recipe: PseudoEpisodeRecipe,
        *,
        seed: int = 0,
        pool: int = 100,
        online: bool = False,
    ) -> None:
        if pool < 1:
            raise InputError(f"a pool of {pool} pseudo-episodes was asked for: give at least 1")
        if not 0 <= seed < 2**64:
            raise InputError(f"seed is {seed}: give a whole number from 0 to 2**64 - 1")
        self.gaussians, self.recipe, self.seed = gaussians, recipe, seed
        self.pool, self.online = pool, online
        self._unmoved = gaussians
        self._drawn: dict[int, PseudoEpisode] = {}

    def episode(self, number: int) -> PseudoEpisode:
        """Pseudo-episode `number`, counted from 0."""
        if number < 0:
            raise InputError(f"pseudo-episode {number} was asked for: they are counted from 0")
        if self.online:
            return self._draw(number)
        round_, place = divmod(number, self.pool)
        if round_ > 0:
            order = numbered_generator(self.seed, round_, Stream.POOL_ORDER)
            place = int(torch.randperm(self.pool, generator=order)[place])
        if place not in self._drawn:
            self._drawn[place] = self._draw(place)
        return self._drawn[place]

    def move(self, shifts: Float64[Tensor, "classes dim"]) -> None:
        """Draw from now on about means that lie `shifts` away from those it was made with."""
        self.gaussians = self._unmoved.moved(shifts)
        self._drawn.clear()

    def _draw(self, number: int) -> PseudoEpisode:
        generator = numbered_generator(self.seed, number, Stream.PSEUDO_EPISODES)
        return draw_pseudo_episode(self.gaussians, self.recipe, generator=generator)
