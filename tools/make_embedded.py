"""Make the small backbone that ships inside the package, by distilling a larger one.

    python tools/make_embedded.py --teacher FILE --images DIR [--images DIR …] --work DIR --until IMAGES
    python tools/make_embedded.py --teacher FILE --images DIR … --work DIR --validate --domain SOURCE …

The student is a ViT as wide as the teacher, with a random start; no weight of the teacher is copied. Both see the same
views (parts of photos and of procedural pictures, strongly recolored, blurred, blended) at the student's size, and the
student matches all tokens that leave each of its blocks. It learns this in stages: first every block alone takes the
teacher's tokens and has to give the teacher's next ones, which is an easy problem for each; then runs of three blocks;
then the whole network from pixels. In most batches both are given half of the patches only, which doubles the number of
images that can be looked at. The learning rate stays level once warm and falls only over the last `--cooling`
images before `--until`: training can go on with a larger `--until` from where it was level.

The same command continues where it was interrupted. `WORK/student.safetensors`, the moving average of the weights in
float16 and in the key names of timm, is renewed with every checkpoint and can be used at any time; a json file beside
it says how it was made. Every tenth image of each folder is held out, for `--validate`.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from PIL import Image, ImageFilter
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from cplsr.backbones.backbone import Backbone
from cplsr.backbones.checkpoint_keys import to_checkpoint_keys
from cplsr.backbones.load import load_backbone
from cplsr.data.decode import decode
from cplsr.data.open import open_domain
from cplsr.data.preprocess import preprocess
from cplsr.data.procedural import make_domain
from cplsr.episodes.sampling import EpisodeSampler
from cplsr.errors import InputError
from cplsr.files import access_like_folder, new_file, write_json

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png"}
STAGE_RATES = (1.0, 0.7, 0.4)
"""Share of the learning rates for blocks alone, for runs of blocks and for the whole network: depth wants caution."""

HELD_OUT = 10
"""Every so many-th image of a folder is kept for validation."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the student, beside the teacher, the images and how long it learns.

    alone, runs: so many images teach every block alone, and then so many runs of three blocks.
    average: how much of the moving average of the weights stays at each step.
    kept: share of the patches that both see, except in every fourth batch and while the rate falls.
    learning_rate: of the matrices.
    small_rate: of all other weights; tenfold at first for those outside the blocks, which have far to go: the teacher's
        class token and positions have values above 10.
    """

    image_size: int = 128
    layers: int = 12
    procedural_images: int = 6400
    alone: int = 16_000
    runs: int = 10_000
    batch: int = 32
    kept: float = 0.5
    learning_rate: float = 8e-3
    small_rate: float = 1e-2
    warmup: int = 960
    average: float = 0.99
    seed: int = 0

    @property
    def stage_starts(self) -> tuple[int, int, int]:
        """After how many images each stage begins."""
        return 0, self.alone, self.alone + self.runs


class Views:
    """View number i of the training images as uint8 pixels (3, size, size), from (seed, i) alone.

    Every folder of photos, and the procedural base domain, is drawn equally often.
    """

    def __init__(self, folders: list[list[Path]], recipe: Recipe) -> None:
        self.folders, self.recipe = folders, recipe
        self.procedural = make_domain("base")

    def __getitem__(self, index: int) -> Tensor:
        random = np.random.Generator(np.random.Philox(key=[self.recipe.seed, index]))
        view = self._view(random)
        if random.random() < 0.2:
            view = Image.blend(view, self._view(random), float(random.uniform(0.2, 0.5)))
        return torch.from_numpy(np.asarray(view).copy()).permute(2, 0, 1)

    def _view(self, random: np.random.Generator) -> Image.Image:
        chosen = int(random.integers(len(self.folders) + (self.recipe.procedural_images > 0)))
        if chosen < len(self.folders):
            files = self.folders[chosen]
            image = Image.open(files[int(random.integers(len(files)))]).convert("RGB")
        else:
            number = int(random.integers(self.recipe.procedural_images))
            step = max(1, len(self.procedural) // self.recipe.procedural_images)
            image = Image.fromarray(self.procedural.render(number * step % len(self.procedural)))
        return recolored(crop(image, self.recipe.image_size, random), random)


def crop(image: Image.Image, size: int, random: np.random.Generator) -> Image.Image:
    """A random part of the image, 20 to 100 % of its area, flipped or turned now and then."""
    area = image.width * image.height * random.uniform(0.2, 1.0)
    aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
    width = min(image.width, math.sqrt(area * aspect))
    height = min(image.height, math.sqrt(area / aspect))
    left, top = random.uniform(0, image.width - width), random.uniform(0, image.height - height)
    part = image.resize((size, size), Image.Resampling.BICUBIC, box=(left, top, left + width, top + height))
    if random.random() < 0.5:
        part = part.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if random.random() < 0.2:
        part = part.transpose(Image.Transpose.ROTATE_90 if random.random() < 0.5 else Image.Transpose.ROTATE_180)
    return part


def recolored(image: Image.Image, random: np.random.Generator) -> Image.Image:
    """Colors mixed, stretched and shifted in most images, some without color, some blurred: targets are not photos."""
    kind = random.random()
    if kind < 0.7:
        gray = np.full((3, 3), 1 / 3)
        saturation = 0.0 if kind < 0.1 else random.uniform(0.2, 1.8)
        mix = saturation * np.eye(3) + (1 - saturation) * gray + random.normal(0, 0.15 * saturation, (3, 3))
        contrast, brightness = random.uniform(0.4, 1.6), random.uniform(-50, 50)
        pixels = (np.asarray(image, np.float32) - 128) @ (contrast * mix).astype(np.float32).T + (128 + brightness)
        image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    if random.random() < 0.15:
        image = image.filter(ImageFilter.GaussianBlur(float(random.uniform(0.3, 2.0))))
    return image


def make_student(teacher: Backbone, recipe: Recipe) -> nn.Module:
    """A plain ViT with random weights, as wide as the teacher."""
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(recipe.seed)
    config = ViTConfig(
        hidden_size=teacher.dim,
        num_hidden_layers=recipe.layers,
        num_attention_heads=teacher.heads,
        intermediate_size=4 * teacher.dim,
        image_size=recipe.image_size,
        patch_size=teacher.patch_size,
        layer_norm_eps=1e-6,
        initializer_range=0.7 * teacher.dim**-0.5,
    )
    return ViTModel(config, add_pooling_layer=False)


def enter(model: nn.Module, images: Tensor, kept: Tensor | None = None) -> Tensor:
    """The tokens as they enter the first block: the class token and all patches, or those kept."""
    tokens = model.embeddings(images)
    return tokens if kept is None else torch.cat([tokens[:, :1], tokens[:, 1:][:, kept]], dim=1)


def pooled(model: nn.Module, tokens: Tensor) -> Tensor:
    """What depth embeddings are made of: class token and patch mean after the final norm, (batch, 2, dim)."""
    normed = model.layernorm(tokens)
    return torch.stack([normed[:, 0], normed[:, 1:].mean(1)], dim=1)


@dataclass(frozen=True)
class Lesson:
    """What the teacher makes of a batch: its tokens at the depths of the student's, and what is pooled from them.

    run: how many blocks the student runs before it is given the teacher's tokens again; 0 for all of them.
    """

    images: Tensor
    kept: Tensor | None
    tokens: list[Tensor]
    pooled: list[Tensor]
    run: int

    def given(self, depth: int) -> bool:
        """Whether the teacher's tokens at a depth are handed to the student's next block."""
        return self.run > 0 and depth % self.run == 0

    def scales(self, depth: int) -> tuple[Tensor, Tensor]:
        """Variance of each channel that the blocks since the last handed tokens bring about, of class and patches."""
        start = (depth - 1) // self.run * self.run if self.run and depth else None
        moved = self.tokens[depth] - (self.tokens[depth].mean(0) if start is None else self.tokens[start])
        patch = moved[:, 1:].square().mean((0, 1))
        patch = patch + 0.05 * patch.mean()
        return moved[:, 0].square().mean(0) + 0.1 * patch, patch


@torch.no_grad()
def teach(teacher: Backbone, pixels: Tensor, kept: Tensor | None, layers: int, run: int) -> Lesson:
    """Let the teacher look at the views; depth i of a student of fewer layers is the nearest later of the teacher's."""
    images = teacher.normalize(pixels)
    tokens = [enter(teacher.model, images, kept)]
    for layer in teacher.model.layers:
        tokens.append(layer(tokens[-1]))
    tokens = [tokens[math.ceil(depth * teacher.layers / layers)] for depth in range(layers + 1)]
    return Lesson(images, kept, tokens, [pooled(teacher.model, each) for each in tokens], run)


def learn(student: nn.Module, lesson: Lesson) -> tuple[Tensor, Tensor]:
    """The loss, and by depth the share of the variance between images that is missed, of class token and patch mean."""
    loss, missed = torch.zeros(()), []
    for depth, wanted in enumerate(lesson.tokens):
        if depth == 0:
            tokens = enter(student, lesson.images, lesson.kept)
        else:
            tokens = student.layers[depth - 1](lesson.tokens[depth - 1] if lesson.given(depth - 1) else tokens)
        class_scale, patch_scale = lesson.scales(depth)
        error = tokens - wanted
        loss = loss + squares(error[:, 0] / class_scale.sqrt()) + squares(error[:, 1:] / patch_scale.sqrt())
        target = lesson.pooled[depth]
        spread = (target - target.mean(0)).square().sum(-1).mean(0) + 0.01 * target.square().sum(-1).mean(0)
        missed.append((pooled(student, tokens) - target).square().sum(-1).mean(0) / spread)
    shares = torch.stack(missed)
    evened = shares / (1 + shares.detach())  # where little differs between images a constant offset would outweigh all
    return loss / len(shares) + evened[1:].mean() + evened[-1, 0], shares.detach()


def squares(error: Tensor) -> Tensor:
    """Mean square, growing only linearly above three scales: single tokens are far larger than all others."""
    return 6 * F.smooth_l1_loss(error, torch.zeros_like(error), beta=3.0)


class Orthogonal(torch.optim.Optimizer):
    """Momentum whose steps are made nearly orthogonal matrices (Muon, Jordan 2024), in float32.

    On single blocks it came to half of AdamW's error with the same images. torch's own works in bfloat16, which takes
    ten times as long on a processor that does not multiply it. The factor makes steps as large as AdamW's.
    """

    def __init__(self, weights: list[nn.Parameter], lr: float) -> None:
        super().__init__(weights, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Move every matrix; a convolution counts as the matrix it applies to each patch."""
        for group in self.param_groups:
            for weight in group["params"]:
                mean = self.state[weight].setdefault("mean", torch.zeros_like(weight))
                mean.lerp_(weight.grad, 0.1)
                move = orthogonal(weight.grad.lerp(mean, 0.9).flatten(1))
                weight.add_(move.view_as(weight), alpha=-0.2 * group["lr"] * max(move.shape) ** 0.5)


def orthogonal(matrix: Tensor) -> Tensor:
    """The matrix with its singular values brought near 1, by five steps of a Newton-Schulz iteration."""
    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    wide = wide / (wide.norm() + 1e-12)
    for _ in range(5):
        gram = wide @ wide.T
        wide = 3.4445 * wide + (2.0315 * gram @ gram - 4.7750 * gram) @ wide
    return wide.T.contiguous() if matrix.shape[0] > matrix.shape[1] else wide


@dataclass
class Training:
    """The student on its way; `done` counts the images it has seen."""

    teacher: Backbone
    recipe: Recipe
    folder: Path
    until: int
    cooling: int
    parts: ClassVar = ("student", "average", "matrices", "others")

    def __post_init__(self) -> None:
        """Start, or continue from the last checkpoint."""
        self.done = 0
        self.student = make_student(self.teacher, self.recipe)
        keep = torch.optim.swa_utils.get_ema_multi_avg_fn(self.recipe.average)
        self.average = torch.optim.swa_utils.AveragedModel(self.student, multi_avg_fn=keep)
        matrices = [p for p in self.student.parameters() if p.ndim >= 2 and p.shape[0] != 1]
        ids = {id(p) for p in matrices}
        rest = [(name, p) for name, p in self.student.named_parameters() if id(p) not in ids]
        inside = [p for name, p in rest if name.startswith("layers.")]
        outside = [p for name, p in rest if not name.startswith("layers.")]
        self.matrices = Orthogonal(matrices, self.recipe.learning_rate)
        self.others = torch.optim.AdamW([{"params": inside}, {"params": outside}], betas=(0.9, 0.98), weight_decay=0)
        saved = [self.folder / f"cooling-{self.until}.pt", self.folder / "training.pt"]
        if found := next((path for path in saved if path.exists()), None):
            state = torch.load(found, weights_only=True)
            for name in self.parts:
                getattr(self, name).load_state_dict(state[name])
            self.done = state["done"]

    @property
    def falling(self) -> float:
        """How far the learning rate has fallen: 0 while it is level, 1 at the end."""
        return max(0.0, 1 - (self.until - self.done) / max(1, self.cooling))

    @property
    def stage(self) -> int:
        """0 while blocks learn alone, 1 while runs of blocks do, 2 for the whole network."""
        return sum(self.done >= start for start in self.recipe.stage_starts[1:])

    def rate(self) -> float:
        """Share of the learning rates: warmed up at the start of each stage, level, and at the end down a cosine."""
        since = self.done - self.recipe.stage_starts[self.stage]
        warm = min(1.0, (since + self.recipe.batch) / max(1, self.recipe.warmup))
        return STAGE_RATES[self.stage] * min(warm, 0.5 * (1 + math.cos(math.pi * self.falling)))

    def step(self, views: Views) -> tuple[float, Tensor]:
        """Learn from the next batch; returns the loss and the shares missed."""
        recipe, patches = self.recipe, self.teacher.patches
        pixels = torch.stack([views[index] for index in range(self.done, self.done + recipe.batch)])
        run = (1, 3, 0)[self.stage]
        all_patches = self.falling > 0 or self.done // recipe.batch % 4 == 0
        order = torch.randperm(patches, generator=torch.Generator().manual_seed(self.done))
        kept = None if all_patches else order[: max(1, round(recipe.kept * patches))]
        self.matrices.param_groups[0]["lr"] = recipe.learning_rate * self.rate()
        for group, factor in zip(self.others.param_groups, (1, 10 if self.stage == 0 else 1), strict=True):
            group["lr"] = factor * recipe.small_rate * self.rate()
        loss, missed = learn(self.student, teach(self.teacher, pixels, kept, recipe.layers, run))
        self.student.zero_grad(set_to_none=True)
        loss.backward()
        self.matrices.step()
        self.others.step()
        self.average.update_parameters(self.student)
        self.done += recipe.batch
        return loss.item(), missed

    def save(self, images: int) -> None:
        """Write the checkpoint, and the student as it is now."""
        name = f"cooling-{self.until}.pt" if self.falling > 0 else "training.pt"
        state = {part: getattr(self, part).state_dict() for part in self.parts}
        with new_file(self.folder / name, "wb") as stream:
            torch.save({**state, "done": self.done}, stream)
        tensors = to_checkpoint_keys(self.average.module.state_dict())
        path = self.folder / "student.safetensors"
        with new_file(path, "wb") as stream:
            save_file({key: value.half().contiguous() for key, value in tensors.items()}, stream.name, {"format": "pt"})
        access_like_folder(path)
        made = {"teacher": Path(self.teacher.source).name, "images": images, "views": self.done, "cooled": self.falling}
        color = {"heads": self.teacher.heads, "mean": self.teacher.mean, "std": self.teacher.std}
        write_json(path.with_name(path.name + ".json"), {**color, "recipe": asdict(self.recipe), **made})


def train(training: Training, views: Views, minutes: float) -> None:
    """Learn until enough images were seen; a checkpoint every few minutes, before the rate falls, and at the end."""
    images = len({file for files in views.folders for file in files})
    begin = saved = shown = time.monotonic()
    seen: list[tuple[float, Tensor]] = []
    first = training.done
    while training.done < training.until:
        seen.append(training.step(views))
        now = time.monotonic()
        last_level = 0 <= training.until - training.cooling - training.done < training.recipe.batch
        if now - saved > 60 * minutes or last_level or training.done >= training.until:
            training.save(images)
            saved = now
        if now - shown > 60 or training.done >= training.until:
            missed = torch.stack([table for _, table in seen]).mean(0)
            print(
                f"{training.done} images  rate {training.rate():.3f}  loss {np.mean([x for x, _ in seen]):.4f}  "
                f"missed at the end {missed[-1, 0]:.4f} {missed[-1, 1]:.4f}, of all depths {missed.mean():.4f}  "
                f"{(training.done - first) / (now - begin):.1f} images/s",
                flush=True,
            )
            shown, seen = now, []


@torch.inference_mode()
def depth_embeddings(backbone: Backbone, pixels: Tensor) -> Tensor:
    """Unit class token and unit patch mean after the final norm of every block, (images, 2 * layers, dim)."""
    found = []
    for part in pixels.split(backbone.images_at_a_time):
        tokens, every = enter(backbone.model, backbone.normalize(part)), []
        for layer in backbone.model.layers:
            tokens = layer(tokens)
            every.append(F.normalize(pooled(backbone.model, tokens), dim=-1))
        found.append(torch.cat(every, dim=1))
    return torch.cat(found)


def accuracies(embeddings: Tensor, labels: np.ndarray, episodes: int = 600, ridge: float = 0.1) -> dict[str, float]:
    """5-way 5-shot accuracy, percent: prototypes on the last class token, and ridge regression on all depths."""
    drawn = EpisodeSampler(labels, way=5, shot=5, query=15).draw(episodes)
    support, query = torch.from_numpy(drawn.support), torch.from_numpy(drawn.query)
    answers, names = torch.arange(5)[:, None], F.one_hot(torch.arange(5).repeat_interleave(5), 5).float()
    last, deep = embeddings[:, -2], F.normalize(embeddings.flatten(1), dim=-1)
    right = {"prototypes": 0.0, "depth_ridge": 0.0}
    for s, q in zip(support, query, strict=True):
        prototypes = F.normalize(last[s].mean(1), dim=-1)
        right["prototypes"] += ((last[q] @ prototypes.T).argmax(-1) == answers).float().mean().item()
        x = deep[s].flatten(0, 1)
        weights = x.T @ torch.linalg.solve(x @ x.T + ridge * torch.eye(len(x)), names)
        right["depth_ridge"] += ((deep[q] @ weights).argmax(-1) == answers).float().mean().item()
    return {name: round(100 * count / episodes, 2) for name, count in right.items()}


def validate(models: dict[str, Backbone], held_out: list[Path], domains: list[str]) -> dict[str, dict[str, object]]:
    """The models on held-out photos (cosines with the first model) and on few-shot episodes of some domains."""
    report: dict[str, dict[str, object]] = {name: {} for name in models}
    reference: Tensor | None = None
    for name, model in models.items():
        pixels = [torch.from_numpy(preprocess(Image.open(file), model.image_size)) for file in held_out]
        start = time.monotonic()
        own = depth_embeddings(model, torch.stack(pixels))
        report[name]["images_per_second"] = round(len(own) / (time.monotonic() - start), 1)
        reference = own if reference is None else reference
        for kind, column in (("class", slice(-2, -1)), ("patch mean", slice(-1, None)), ("all depths", slice(None))):
            if own.shape == reference.shape or kind != "all depths":
                a, b = own[:, column], reference[:, column]
                report[name][f"cosine, {kind}"] = round((a * b).sum(-1).mean().item(), 4)
                a, b = a - a.mean(0), b - b.mean(0)
                report[name][f"centered cosine, {kind}"] = round(F.cosine_similarity(a, b, dim=-1).mean().item(), 4)
    for source in domains:
        domain = open_domain(source)
        for name, model in models.items():
            batches = list(decode(domain, model.image_size, workers=0))
            rows = np.concatenate([batch.indices for batch in batches])
            embeddings = depth_embeddings(model, torch.cat([batch.pixels for batch in batches]))
            report[name][source] = accuracies(embeddings, np.asarray(domain.labels)[rows])
            print(f"{source}  {name}  {report[name][source]}", flush=True)
    return report


def photos_in(folders: list[Path]) -> Iterator[list[Path]]:
    """The image files below each folder, sorted."""
    for folder in folders:
        files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in IMAGE_SUFFIXES)
        if len(files) < HELD_OUT:
            raise InputError(f"{len(files)} images below {folder}: give folders of at least {HELD_OUT} photos")
        yield files


def main(arguments: list[str] | None = None) -> None:
    """Train, or validate what is trained."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teacher", required=True, help="anything load_backbone takes")
    parser.add_argument("--images", required=True, type=Path, action="append", help="folder of photos, searched below")
    parser.add_argument("--work", required=True, type=Path, help="folder for checkpoints and the student")
    parser.add_argument("--until", type=int, default=400_000, help="stop after so many images")
    parser.add_argument("--cooling", type=int, default=40_000, help="the rate falls over the last so many images")
    parser.add_argument("--minutes", type=float, default=4, help="between checkpoints")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--validate", action="store_true", help="measure instead of train; writes validation.json")
    parser.add_argument(
        "--domain", action="append", default=[], help="few-shot validation domain, as `open_domain` takes"
    )
    parser.add_argument(
        "--against", action="append", default=[], help="further backbones to validate beside the student"
    )
    for name, value in asdict(Recipe()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    recipe = Recipe(**{name: getattr(given, name) for name in asdict(Recipe())})
    folders = list(photos_in(given.images))
    if given.validate:
        names = [given.teacher, *given.against, str(given.work / "student.safetensors")]
        models = {name: load_backbone(name) for name in names}
        report = validate(models, folders[0][HELD_OUT - 1 :: HELD_OUT], given.domain)
        made = json.loads((given.work / "student.safetensors.json").read_text())
        write_json(given.work / f"validation-{made['views']}.json", {"made": made, "measured": report})
        print(json.dumps(report, indent=2))
        return
    training_files = [[file for i, file in enumerate(files) if i % HELD_OUT != HELD_OUT - 1] for files in folders]
    teacher = load_backbone(given.teacher, image_size=recipe.image_size)
    training = Training(teacher, recipe, given.work, given.until, given.cooling)
    train(training, Views(training_files, recipe), given.minutes)


if __name__ == "__main__":
    main()
