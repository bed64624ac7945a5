"""Training an adapter, episode by episode."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cplsr.adapters.attach import adapter_of, attach, detach
from cplsr.adapters.base import Adapter
from cplsr.adapters.coalescent import Coalescent
from cplsr.adapters.kinds import accepts_option, check_options
from cplsr.adapters.store import save_adapter
from cplsr.backbones.backbone import Backbone
from cplsr.data.decoded_images import DecodedImages, decoded_images
from cplsr.data.domain import Domain
from cplsr.environment import versions
from cplsr.episodes.sampling import EpisodeSampler
from cplsr.episodes.streams import Stream, numbered_generator
from cplsr.errors import InputError
from cplsr.files import only_writer
from cplsr.processes import Processes
from cplsr.reservation.pseudo_episodes import PseudoEpisodeStream
from cplsr.settings.training import TURNS, TrainingSettings
from cplsr.training.base_statistics import base_gaussians
from cplsr.training.episode_plan import EpisodePlan, plan_base_episode
from cplsr.training.monitor import Monitor
from cplsr.training.objective import JointObjective, Objective, TrainingEpisode
from cplsr.training.run_folder import RunFolder, RunState, git_commit
from cplsr.training.validation import Validation, hold_out_classes

SAVE_SECONDS = 15.0
PARTNERS = 2**31
"""Numbers from here on are of base episodes that stand beside others."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingResult:
    """Where the run is, and how it went; accuracies are those of the validation episodes in percent."""

    folder: Path
    start_accuracy: float
    best_accuracy: float
    best_episode: int
    last_accuracy: float
    seconds: float
    already_finished: bool = False


def train(
    backbone: Backbone,
    base: Domain,
    val: Domain | None = None,
    *,
    out: str | Path,
    adapter: str = "coalescent",
    adapter_options: Mapping[str, Any] | None = None,
    settings: TrainingSettings | None = None,
    objective: Objective | None = None,
    resume: bool = False,
    workers: int | None = None,
    save_seconds: float = SAVE_SECONDS,
    command: str | None = None,
) -> TrainingResult:
    """Train an adapter for `backbone` on a base domain, and leave it in the folder `out`.

    val: validation classes; default: the base domain's own split, else 20 % of its classes, held out by the seed.
    adapter, adapter_options: kind and options as for `attach`.
    objective: the loss of an episode; default: CPLSR's.
    resume: continue a run that was interrupted, with the same result as if it had not been.
    command: what was typed to start it, to be kept in `run.json`.

    The folder gets `adapter/` (the selected one), `last/`, `metrics.jsonl` and `run.json`. The backbone is given back
    frozen, without the adapter.
    """
    settings = settings or TrainingSettings()
    processes = Processes.find(backbone.device)
    if settings.episodes % (settings.episodes_per_step * processes.count):
        raise InputError(
            f"{settings.episodes} episodes cannot be dealt evenly to {processes.count} processes of "
            f"{settings.episodes_per_step} per step: give a multiple of {settings.episodes_per_step * processes.count}"
        )
    if backbone.adapter is not None:
        raise InputError("the backbone carries an adapter already: detach it before training another")
    base, val = _with_validation(base, val, settings)
    folder = RunFolder(Path(out))
    options = check_options(adapter, adapter_options or {})
    if accepts_option(adapter, "seed"):
        options.setdefault("seed", settings.seed)
    objective = objective or JointObjective(temperature=settings.temperature, prototype=settings.prototype)
    _check_depth(backbone, settings, objective)
    description = _describe(backbone, base, val, adapter, options, settings, objective, processes)
    with only_writer(folder.path) if processes.first else nullcontext():
        begun = folder.begin({**description, "command": command}, resume=resume) if processes.first else None
        if left := processes.gather(begun)[0]:
            _train(backbone, base, val, adapter, options, settings, objective, folder, processes, workers, save_seconds)
        return _finished(folder, processes, already=not left)


def _train(
    backbone: Backbone,
    base: Domain,
    val: Domain,
    adapter: str,
    options: dict[str, Any],
    settings: TrainingSettings,
    objective: Objective,
    folder: RunFolder,
    processes: Processes,
    workers: int | None,
    save_seconds: float,
) -> None:
    """Train in a folder that is ours alone."""
    images, val_images = (
        decoded_images(d, backbone.image_size, processes=processes, workers=workers) for d in (base, val)
    )
    pseudo = None
    if settings.pe:
        gaussians = base_gaussians(backbone, images, settings, processes=processes)
        pseudo = PseudoEpisodeStream(
            gaussians,
            settings,
            seed=settings.seed,
            pool=settings.pseudo_episodes,
            online=settings.online,
        )
    attach(backbone, adapter, **options)
    backbone.checkpointing = settings.checkpointing
    try:
        validation = Validation.of(val_images, settings)
        objective.prepare(backbone, len(images.classes) * (TURNS if settings.sst else 1))
        objective.to(backbone.device)
        run = _Run(backbone, images, validation, pseudo, settings, objective, folder, processes, save_seconds)
        run.go()
    finally:
        backbone.checkpointing = False
        detach(backbone)


class _Run:
    """One run in progress: a base episode after the other, from wherever the state says."""

    def __init__(
        self,
        backbone: Backbone,
        images: DecodedImages,
        validation: Validation,
        pseudo: PseudoEpisodeStream | None,
        settings: TrainingSettings,
        objective: Objective,
        folder: RunFolder,
        processes: Processes,
        save_seconds: float,
    ) -> None:
        self.backbone, self.images, self.validation = backbone, images, validation
        self.pseudo, self.settings, self.objective, self.folder = pseudo, settings, objective, folder
        self.processes, self.save_seconds = processes, save_seconds
        self.adapter: Adapter = adapter_of(backbone)
        self.parameters = [*self.adapter.parameters(), *objective.parameters()]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=settings.lr, weight_decay=settings.weight_decay)
        self.sampler = EpisodeSampler(
            images.labels, way=settings.way, shot=settings.shot, query=settings.query, seed=settings.seed
        )
        self.embed: Any = torch.compile(backbone) if settings.compile else backbone
        self.state: RunState
        self.monitor: Monitor

    def go(self) -> None:
        """Train to the end."""
        settings = self.settings
        at_once = settings.episodes_per_step * self.processes.count
        self.state = self._restored() or self._new()
        self.monitor = Monitor(self.folder, settings, self.state, self.processes.first)
        begin = time.monotonic() - self.state.seconds
        saved = time.monotonic()
        with self.monitor:
            if self.state.best_episode < 0:
                self._validate()
                self._save(begin)
            while self.state.episode < settings.episodes:
                start = time.monotonic()
                losses, accuracies = self._episodes(self.state.episode, at_once)
                self.state.episode += at_once
                done = self.state.episode
                images = at_once * settings.steps_per_episode * settings.way * (settings.shot + settings.query)
                self.monitor.episode(done, at_once, losses, accuracies, images, time.monotonic() - start)
                interval = settings.validation_interval
                due = interval > 0 and done // interval > (done - at_once) // interval
                if due or done >= settings.episodes:
                    self._validate()
                if due or done >= settings.episodes or time.monotonic() - saved >= self.save_seconds:
                    self._save(begin)
                    saved = time.monotonic()
        self._finish(time.monotonic() - begin)

    def _episodes(self, first: int, at_once: int) -> tuple[float, float]:
        """Base episodes `first` to `first + at_once`, this process's share of them; mean loss and accuracy of all."""
        settings = self.settings
        mine = self.processes.share(range(first, first + at_once))
        plans = [plan_base_episode(self.sampler, number, sst=settings.sst, seed=settings.seed) for number in mine]
        sums = torch.zeros(2, dtype=torch.float64)
        for step in range(settings.steps_per_episode):
            self.optimizer.zero_grad(set_to_none=True)
            for number, plan in zip(mine, plans, strict=True):
                episode = self._episode(plan[step], number * settings.steps_per_episode + step)
                loss, right = self.objective.loss(self.embed, episode, self._partner(number, step))
                self._check(loss, first, "loss")
                (self._with_penalty(loss) / len(mine)).backward()
                sums += torch.tensor([loss.item(), right.item()], dtype=torch.float64)
            gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
            self.processes.average_(gradients)
            self._check(torch.stack([gradient.abs().max() for gradient in gradients]).max(), first, "gradient")
            self.optimizer.step()
        self.processes.average_([sums])
        loss_mean, accuracy_mean = (sums / (len(mine) * settings.steps_per_episode)).tolist()
        return loss_mean, 100 * accuracy_mean

    def _episode(self, plan: EpisodePlan, step: int) -> TrainingEpisode:
        settings = self.settings
        turned = torch.from_numpy(
            self.images.labels[plan.images[:, 0]] + len(self.images.classes) * np.array(plan.turns)
        )
        return TrainingEpisode(
            pixels=plan.pixels(self.images).unflatten(0, plan.images.shape),
            shot=settings.shot,
            classes=turned,
            generator=numbered_generator(settings.seed, step, Stream.OBJECTIVES),
            pseudo=None if self.pseudo is None else self.pseudo.episode(step),
        )

    def _partner(self, number: int, step: int) -> TrainingEpisode | None:
        if not self.objective.partner:
            return None
        settings, number = self.settings, PARTNERS + number
        plan = plan_base_episode(self.sampler, number, sst=settings.sst, seed=settings.seed)[step]
        return self._episode(plan, number * settings.steps_per_episode + step)

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

    def _new(self) -> RunState:
        return RunState(0, _copy(self.adapter), {}, -1, float("-inf"), {}, 0.0)

    def _restored(self) -> RunState | None:
        state = self.folder.load_state() if self.processes.first else None
        state = self.processes.gather(state)[0]
        if state is not None:
            self.adapter.load_state_dict(state.adapter)
            self.objective.load_state_dict(state.objective)
            if state.optimizer:
                self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": _by_parameter(state.optimizer)})
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

    def _finish(self, seconds: float) -> None:
        if not self.processes.first:
            return
        state, path = self.state, self.folder.path
        info = {"shot": self.settings.shot, "method": self.objective.name, "settings": self.settings.as_dict()}
        save_adapter(self.backbone, path / "last", **info, episode=state.episode)
        episode = state.episode
        if self.settings.select == "best":
            self.adapter.load_state_dict(state.best_adapter)
            episode = state.best_episode
        save_adapter(self.backbone, path / "adapter", **info, episode=episode)
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


def _by_parameter(tensors: dict[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    """Tensors called `PARAMETER/NAME`, as an optimizer keeps them."""
    found: dict[int, dict[str, Tensor]] = {}
    for place, tensor in tensors.items():
        number, _, name = place.partition("/")
        found.setdefault(int(number), {})[name] = tensor
    return found


def _change(adapter: Adapter) -> dict[str, float] | None:
    """‖C − I‖_F of every layer, over all its heads; only coalescent projections have it."""
    if not isinstance(adapter, Coalescent):
        return None
    return {
        str(layer): (C.detach() - torch.eye(C.shape[-1], device=C.device)).norm().item()
        for layer, C in adapter.projections().items()
    }


def _check_depth(backbone: Backbone, settings: TrainingSettings, objective: Objective) -> None:
    """Refuse what depth embeddings are too long for, and losses that change tokens behind blocks already read."""
    own = isinstance(objective, JointObjective) and not settings.pe
    if backbone.pooling == "depth" and not (own and backbone.layers - 1 in backbone.pooled_layers):
        raise InputError(
            f"depth embeddings of {backbone.embedding_dim} numbers can be trained on only without pseudo-embeddings "
            "(--no-pe), by CPLSR's own loss, with the last block among --layers: train with --pooling cls, and "
            "evaluate the adapter with --pooling depth"
        )


def _with_validation(base: Domain, val: Domain | None, settings: TrainingSettings) -> tuple[Domain, Domain]:
    if val is not None:
        return base, val
    if base.validation is not None:
        return base, base.validation()
    base, val = hold_out_classes(base, way=settings.way, seed=settings.seed)
    _log.warning(
        "no validation domain was given: %d of %d classes are held out for it, chosen by the seed",
        len(val.classes),
        len(val.classes) + len(base.classes),
    )
    return base, val


def _describe(
    backbone: Backbone,
    base: Domain,
    val: Domain,
    adapter: str,
    options: dict[str, Any],
    settings: TrainingSettings,
    objective: Objective,
    processes: Processes,
) -> dict[str, Any]:
    return {
        "settings": settings.as_dict(),
        "method": {"name": objective.name, "options": objective.options},
        "adapter": {"kind": adapter, "options": options},
        "backbone": backbone.description(),
        "data": {
            role: {
                "name": domain.name,
                "classes": len(domain.classes),
                "images": len(domain),
                "fingerprint": domain.fingerprint,
                "flags": list(domain.flags),
            }
            for role, domain in (("base", base), ("val", val))
        },
        "versions": versions(),
        "git_commit": git_commit(),
        "processes": processes.count,
        "threads": torch.get_num_threads(),
    }


def _finished(folder: RunFolder, processes: Processes, *, already: bool) -> TrainingResult:
    told = processes.gather(folder.results() if processes.first else None)[0]
    return TrainingResult(
        folder=folder.path,
        start_accuracy=told.start_accuracy,
        best_accuracy=told.best_accuracy,
        best_episode=told.best_episode,
        last_accuracy=told.last_accuracy,
        seconds=told.seconds,
        already_finished=already,
    )
