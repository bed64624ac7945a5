"""The base episodes of a training run, one after the other."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cplsr.adapters.attach import adapter_of
from cplsr.adapters.base import Adapter
from cplsr.adapters.coalescent import Coalescent
from cplsr.adapters.store import save_adapter
from cplsr.backbones.backbone import Backbone
from cplsr.data.augment import turned_at_random
from cplsr.data.decoded_images import DecodedImages
from cplsr.data.domain import Domain
from cplsr.episodes.streams import Stream, numbered_generator
from cplsr.errors import InputError
from cplsr.processes import Processes
from cplsr.records.run import SNAPSHOTS
from cplsr.reservation.pseudo_episodes import PseudoEpisodeStream
from cplsr.settings.training import TrainingSettings
from cplsr.training.base_statistics import class_means
from cplsr.training.episode_plan import PARTNERS, base_sampler, images_of_episode, plan_base_episode
from cplsr.training.monitor import Monitor
from cplsr.training.objective import Objective, TrainingEpisode
from cplsr.training.optimizer import make_optimizer, rate_factor, set_rates
from cplsr.training.run_folder import RunFolder, RunState, nested
from cplsr.training.validation import Validation

SAVE_SECONDS = 15.0
"""How often the state is kept, besides after every validation."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """What is trained, on what and how: all that decides the result of a run.

    `adapter` is its kind, `options` are its own; that `snapshots` of every validation are kept decides nothing.
    """

    backbone: Backbone
    base: Domain
    val: Domain
    adapter: str
    options: dict[str, Any]
    settings: TrainingSettings
    objective: Objective
    processes: Processes
    snapshots: bool = False


class Run:
    """One run in progress: a base episode after the other, from wherever the state says."""

    def __init__(
        self,
        job: TrainingJob,
        folder: RunFolder,
        images: DecodedImages,
        validation: Validation,
        pseudo: PseudoEpisodeStream | None,
        frozen_means: Tensor | None = None,
    ) -> None:
        self.backbone, self.objective, self.processes = job.backbone, job.objective, job.processes
        self.folder, self.images, self.validation, self.pseudo = folder, images, validation, pseudo
        self.snapshots = job.snapshots and self.processes.first
        self.frozen_means = frozen_means
        self.adapter: Adapter = adapter_of(self.backbone)
        self.parameters = [*self.adapter.parameters(), *self.objective.parameters()]
        self.settings = settings = job.settings
        self.optimizer = make_optimizer(settings, self.adapter.parameters(), self.objective.parameters())
        plan = partial(plan_base_episode, base_sampler(images.labels, settings), sst=settings.turned_classes)
        self.plans = lru_cache(2 * settings.episodes_per_step)(plan)  # of a base episode and its partner
        self.embed: Any = torch.compile(self.backbone) if settings.compile else self.backbone
        self.state: RunState
        self.monitor: Monitor

    def go(self) -> None:
        """Train to the end."""
        settings = self.settings
        at_once = settings.episodes_per_step * self.processes.count
        each = images_of_episode(settings, partner=self.objective.partner)
        self.state = self._restored() or RunState(adapter=_copy(self.adapter))
        self.monitor = Monitor(self.folder, settings, self.state, self.processes.first)
        begin = time.monotonic() - self.state.seconds
        saved = time.monotonic()
        with closing(self.monitor):
            if self.state.best_episode < 0:
                self._validate()
                self._save(begin)
            while self.state.episode < settings.episodes:
                start = time.monotonic()
                self._follow(self.state.episode, at_once)
                losses, accuracies = self._episodes(self.state.episode, at_once)
                self.state.episode += at_once
                done = self.state.episode
                images = at_once * settings.turns_per_class * each
                self.monitor.episode(done, at_once, losses, accuracies, images, time.monotonic() - start)
                self._average(at_once)
                interval = settings.validation_interval
                due = interval > 0 and done // interval > (done - at_once) // interval
                if due or done >= settings.episodes:
                    self._validate()
                if due or done >= settings.episodes or time.monotonic() - saved >= SAVE_SECONDS:
                    self._save(begin)
                    saved = time.monotonic()
        self._finish(time.monotonic() - begin)

    def _episodes(self, first: int, at_once: int) -> tuple[float, float]:
        """Base episodes `first` to `first + at_once`, this process's share of them; mean loss and accuracy of all."""
        settings = self.settings
        mine = self.processes.share(range(first, first + at_once))
        taken, steps = (episodes // at_once * settings.turns_per_class for episodes in (first, settings.episodes))
        sums = torch.zeros(2, dtype=torch.float64)
        for step in range(settings.turns_per_class):
            self.optimizer.zero_grad(set_to_none=True)
            for number in mine:
                partner = self._episode(number + PARTNERS, step) if self.objective.partner else None
                loss, right = self.objective.loss(self.embed, self._episode(number, step), partner)
                self._check(loss, first, "loss")
                (self._with_penalty(loss) / len(mine)).backward()
                sums += torch.tensor([loss.item(), right.item()], dtype=torch.float64)
            gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
            self.processes.average_(gradients)
            self._check(torch.stack([gradient.abs().max() for gradient in gradients]).max(), first, "gradient")
            set_rates(self.optimizer, rate_factor(settings, taken + step, steps))
            self.optimizer.step()
            if settings.trust is not None and isinstance(self.adapter, Coalescent):
                self.adapter.bound(settings.trust)
        self.processes.average_([sums])
        loss_mean, accuracy_mean = (sums / (len(mine) * settings.turns_per_class)).tolist()
        return loss_mean, 100 * accuracy_mean

    def _average(self, at_once: int) -> None:
        """Add the adapter to the sums in the averaged part of the run; at the end the mean takes its place."""
        episodes, done = self.settings.episodes, self.state.episode
        first = episodes - round(self.settings.average * episodes / at_once) * at_once
        if done <= first:
            return
        sums = self.state.sums
        for name, tensor in _copy(self.adapter).items():
            sums[name] = sums[name] + tensor if name in sums else tensor.double()
        if done == episodes:
            count = (episodes - first) // at_once
            self.adapter.load_state_dict({name: total / count for name, total in sums.items()})

    def _follow(self, episode: int, at_once: int) -> None:
        """Every `follow` base episodes, move the Gaussians to where the adapter has moved their classes."""
        every = self.settings.follow
        if self.frozen_means is None or self.pseudo is None or episode // every == max(0, episode - at_once) // every:
            return
        means = class_means(self.backbone, self.images, self.settings, processes=self.processes)
        self.state.drift = {"means": means - self.frozen_means}
        self.pseudo.move(self.state.drift["means"])

    def _episode(self, number: int, step: int) -> TrainingEpisode:
        settings, plan = self.settings, self.plans(number)[step]
        own = number * settings.turns_per_class + step
        turned = torch.from_numpy(
            self.images.labels[plan.images[:, 0]] + len(self.images.classes) * np.array(plan.turns)
        )
        changes = numbered_generator(settings.seed, own, Stream.AUGMENTATIONS)
        pixels = plan.pixels(self.images, settings.augment, changes)
        if settings.sst and not settings.turned_classes:
            pixels = turned_at_random(pixels, changes)
        return TrainingEpisode(
            pixels=pixels.unflatten(0, plan.images.shape),
            shot=settings.shot,
            classes=turned,
            generator=numbered_generator(settings.seed, own, Stream.OBJECTIVES),
            pseudo=None if self.pseudo is None else self.pseudo.episode(own),
        )

    def _with_penalty(self, loss: Tensor) -> Tensor:
        if self.settings.symmetry > 0 and isinstance(self.adapter, Coalescent) and not self.adapter.mahalanobis:
            return loss + self.settings.symmetry * self.adapter.symmetry_penalty()
        return loss

    def _check(self, value: Tensor, episode: int, what: str) -> None:
        if not torch.isfinite(value):
            raise InputError(
                f"the {what} of base episode {episode} is {value.item()}: training stopped, {self.folder.path} keeps "
                f"the state of episode {self.state.episode} or before; lower --lr, or use --precision fp32"
            )

    def _validate(self) -> None:
        interval = self.validation.accuracy(self.backbone, self.processes)
        self.monitor.validation(self.state.episode, interval, _change(self.adapter))
        if interval.mean >= self.state.best_accuracy:  # of equals the later
            self.state.best_accuracy, self.state.best_episode = interval.mean, self.state.episode
            self.state.best_adapter = _copy(self.adapter)
        if self.snapshots and self.state.episode > 0:
            self._save_adapter(f"{SNAPSHOTS}/{self.state.episode:07d}", self.state.episode)

    def _restored(self) -> RunState | None:
        state = self.folder.load_state() if self.processes.first else None
        state = self.processes.gather(state)[0]
        if state is not None:
            self.adapter.load_state_dict(state.adapter)
            self.objective.load_state_dict(state.objective)
            if state.optimizer:
                kept = {int(number): one for number, one in nested(state.optimizer).items()}
                self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": kept})
            if state.drift and self.pseudo is not None:
                self.pseudo.move(state.drift["means"])
            _log.info("continuing after base episode %d", state.episode)
        return state

    def _save(self, begin: float) -> None:
        if self.processes.first:
            self.state.adapter = _copy(self.adapter)
            self.state.objective = _copy(self.objective)
            kept = self.optimizer.state_dict()["state"].items()
            self.state.optimizer = {f"{number}/{name}": t.cpu() for number, one in kept for name, t in one.items()}
            self.state.seconds = time.monotonic() - begin
            self.folder.save_state(self.state)

    def _save_adapter(self, name: str, episode: int) -> None:
        temperature = float(getattr(self.objective, "temperature", self.settings.temperature))
        info = {
            "shot": self.settings.shot,
            "temperature": temperature if self.settings.head == "prototypes" else None,  # else scores are no cosines
            "method": self.objective.name,
            "settings": self.settings.as_dict(),
        }
        save_adapter(self.backbone, self.folder.path / name, **info, episode=episode)

    def _finish(self, seconds: float) -> None:
        if not self.processes.first:
            return
        state = self.state
        self._save_adapter("last", state.episode)
        episode = state.episode
        if self.settings.select == "best":
            self.adapter.load_state_dict(state.best_adapter)
            episode = state.best_episode
        self._save_adapter("adapter", episode)
        self.folder.finish(
            **self.monitor.summary(),
            best_accuracy=state.best_accuracy,
            best_episode=state.best_episode,
            selected_episode=episode,
            validation_fingerprint=self.validation.fingerprint,
            seconds=round(seconds, 3),
        )


def _copy(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in module.state_dict().items()}


def _change(adapter: Adapter) -> dict[str, float] | None:
    """‖C − I‖_F of every layer, over all its heads; only coalescent projections have it."""
    if not isinstance(adapter, Coalescent):
        return None
    return {
        str(layer): (C.detach() - torch.eye(C.shape[-1], device=C.device)).norm().item()
        for layer, C in adapter.projections().items()
    }
