"""Make the small backbone that ships inside the package, by distilling a larger one.

    python tools/make_embedded.py --teacher FILE --images DIR [--images DIR …] --work DIR --out FILE

Two stages, each of which continues where it was interrupted:

1. views: every photo, and images of the procedural base domain, are cropped, flipped, recolored and sometimes blended
   with another; the teacher embeds the result at its own size, and pixels (at the student's size) and targets go to
   disk.
2. training: the student learns the teacher's centered class token and patch tokens on those views. For most of the
   time it sees half of the patches only, which halves the work; the teacher saw all.

The student is a plain ViT with random start; no weight of the teacher is copied. The result is written in float16 under
the key names of timm, with a json file beside it that says how it was made.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageEnhance
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from cplsr.backbones.backbone import Backbone
from cplsr.backbones.checkpoint_keys import to_checkpoint_keys
from cplsr.backbones.load import load_backbone
from cplsr.data.procedural import make_domain
from cplsr.files import new_file, write_json

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png"}


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the result, beside the teacher and the images."""

    image_size: int = 112
    patch_size: int = 16
    dim: int = 192
    layers: int = 6
    heads: int = 3
    procedural_images: int = 6400
    views_per_image: int = 1
    epochs: int = 14
    batch: int = 64
    learning_rate: float = 1.5e-3
    weight_decay: float = 0.05
    warmup: float = 0.05
    average: float = 0.99
    kept_patches: float = 0.5
    all_patches_from: float = 0.85
    patch_weight: float = 1.0
    relation_weight: float = 0.5
    seed: int = 0


class Views(Dataset):
    """View number i of the training images as uint8 pixels (3, size, size), from (seed, i) alone."""

    def __init__(self, files: list[Path], recipe: Recipe, size: int) -> None:
        self.files, self.recipe, self.size = files, recipe, size
        self.procedural = make_domain("base")
        self.images = len(files) + recipe.procedural_images

    def __len__(self) -> int:
        return self.images * self.recipe.views_per_image

    def __getitem__(self, index: int) -> Tensor:
        random = np.random.Generator(np.random.Philox(key=[self.recipe.seed, index]))
        view = self._view(index % self.images, random)
        if random.random() < 0.25:
            other = self._view(int(random.integers(self.images)), random)
            view = Image.blend(view, other, float(random.uniform(0.2, 0.5)))
        return torch.from_numpy(np.asarray(view).copy()).permute(2, 0, 1)

    def _view(self, number: int, random: np.random.Generator) -> Image.Image:
        if number < len(self.files):
            image = Image.open(self.files[number]).convert("RGB")
        else:
            step = len(self.procedural) // self.recipe.procedural_images
            image = Image.fromarray(self.procedural.render((number - len(self.files)) * step))
        return recolored(crop(image, self.size, random), random)


def crop(image: Image.Image, size: int, random: np.random.Generator) -> Image.Image:
    """A random part of the image, 30 to 100 % of its area, flipped or turned now and then."""
    area = image.width * image.height * random.uniform(0.3, 1.0)
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
    """Brightness, contrast and saturation changed in half of the images; one in eight without color."""
    if random.random() < 0.5:
        for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
            image = enhance(image).enhance(float(random.uniform(0.6, 1.4)))
    return image.convert("L").convert("RGB") if random.random() < 0.125 else image


@dataclass(frozen=True)
class Targets:
    """Memory-mapped files of stage 1: one row a view."""

    pixels: np.memmap
    embeddings: np.memmap
    patches: np.memmap

    @classmethod
    def open(cls, folder: Path, views: int, recipe: Recipe, teacher_dim: int) -> Targets:
        """Open the files, made empty when absent."""
        cells = (recipe.image_size // recipe.patch_size) ** 2

        def memmap(name: str, dtype: type, shape: tuple[int, ...]) -> np.memmap:
            path = folder / name
            return np.memmap(path, dtype=dtype, mode="r+" if path.exists() else "w+", shape=shape)

        return cls(
            memmap("pixels.u8", np.uint8, (views, 3, recipe.image_size, recipe.image_size)),
            memmap("embeddings.f16", np.float16, (views, teacher_dim)),
            memmap("patches.f16", np.float16, (views, cells, teacher_dim)),
        )


def make_views(teacher: Backbone, dataset: Views, recipe: Recipe, folder: Path) -> Targets:
    """Stage 1: let the teacher embed every view; progress is kept after each batch."""
    folder.mkdir(parents=True, exist_ok=True)
    targets = Targets.open(folder, len(dataset), recipe, teacher.dim)
    counter = folder / "views.json"
    done = json.loads(counter.read_text())["done"] if counter.exists() else 0
    rest = torch.utils.data.Subset(dataset, range(done, len(dataset)))
    start = time.monotonic()
    for number, pixels in enumerate(DataLoader(rest, batch_size=64, num_workers=1, prefetch_factor=4)):
        embeddings, patches = teach(teacher, pixels, recipe)
        rows = slice(done, done + len(pixels))
        small = F.interpolate(pixels.float(), size=(recipe.image_size,) * 2, mode="bilinear", antialias=True)
        targets.pixels[rows] = small.round().clamp(0, 255).to(torch.uint8).numpy()
        targets.embeddings[rows] = embeddings.numpy()
        targets.patches[rows] = patches.numpy()
        done += len(pixels)
        if number % 50 == 49 or done == len(dataset):
            for file in (targets.pixels, targets.embeddings, targets.patches):
                file.flush()
            write_json(counter, {"done": done})
            print(f"views {done}/{len(dataset)}  {time.monotonic() - start:.0f} s", flush=True)
    return targets


@torch.inference_mode()
def teach(teacher: Backbone, pixels: Tensor, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """The teacher's class token, and its patch tokens averaged to the student's grid."""
    tokens = teacher.model(teacher.normalize(pixels)).last_hidden_state
    side = math.isqrt(tokens.shape[1] - 1)
    plane = tokens[:, 1:].transpose(1, 2).unflatten(2, (side, side))
    cells = F.adaptive_avg_pool2d(plane, recipe.image_size // recipe.patch_size).flatten(2).transpose(1, 2)
    return tokens[:, 0].half(), cells.half()


def make_student(recipe: Recipe) -> nn.Module:
    """A plain ViT with random weights, started where small vision transformers learn quickly.

    Positions start as sines and cosines of the place, and the products W_qᵀW_k and W_o W_v of every head near the
    multiples of the identity that trained transformers show (mimetic initialization, Trockman and Kolter 2023).
    """
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(recipe.seed)
    config = ViTConfig(
        hidden_size=recipe.dim,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        intermediate_size=4 * recipe.dim,
        image_size=recipe.image_size,
        patch_size=recipe.patch_size,
        layer_norm_eps=1e-6,
    )
    student = ViTModel(config, add_pooling_layer=False)
    with torch.no_grad():
        side = recipe.image_size // recipe.patch_size
        student.embeddings.position_embeddings[0, 1:] = wave_positions(side, recipe.dim)
        for layer in student.layers:
            start_attention(layer.attention, recipe.heads)
    return student


def wave_positions(side: int, dim: int) -> Tensor:
    """Sines and cosines of the row and of the column of every cell, (side * side, dim)."""
    frequencies = 1 / 1000 ** (torch.arange(dim // 4) / (dim // 4))
    angles = torch.arange(side).float()[:, None] * frequencies
    waves = torch.cat([angles.sin(), angles.cos()], dim=1)
    rows, columns = waves.repeat_interleave(side, 0), waves.repeat(side, 1)
    return 0.5 * torch.cat([rows, columns], dim=1)


def start_attention(attention: nn.Module, heads: int) -> None:
    """Set W_qᵀW_k of every head near 0.7 I and W_o W_v near −0.4 I, each with as much noise."""
    dim = attention.q_proj.weight.shape[1]
    for head in range(heads):
        rows = slice(head * dim // heads, (head + 1) * dim // heads)
        product = 0.7 * torch.eye(dim) + 0.7 * torch.randn(dim, dim) / math.sqrt(dim)
        u, values, v = torch.linalg.svd(product)
        size = dim // heads
        attention.q_proj.weight[rows] = (u[:, :size] * values[:size].sqrt()).T
        attention.k_proj.weight[rows] = values[:size, None].sqrt() * v[:size]
    u, values, v = torch.linalg.svd(-0.4 * torch.eye(dim) + 0.4 * torch.randn(dim, dim) / math.sqrt(dim))
    attention.v_proj.weight.copy_(values[:, None].sqrt() * v)
    attention.o_proj.weight.copy_(u * values.sqrt())


def tokens_of(student: nn.Module, images: Tensor, kept: Tensor) -> Tensor:
    """The student's final tokens with only some of the patches: the class token, then the kept ones."""
    embedded = student.embeddings(images)
    hidden = torch.cat([embedded[:, :1], embedded[:, 1:][:, kept]], dim=1)
    for layer in student.layers:
        hidden = layer(hidden)
    return student.layernorm(hidden)


def distillation_loss(student: Tensor, embeddings: Tensor, patches: Tensor, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """How far the student's tokens (batch, 1 + cells, dim) are from the teacher's centered ones.

    Direction of the class token and of every patch token, and the similarities inside the batch: images that are
    neighbors to the teacher should be neighbors to the student, which is what a prototype classifier lives on.
    """
    own = F.normalize(student[:, 0], dim=-1)
    wanted = F.normalize(embeddings, dim=-1)
    direction = 1 - (own * wanted).sum(-1).mean()
    patch = 1 - F.cosine_similarity(student[:, 1:], patches, dim=-1).mean()
    other = torch.eye(len(own), dtype=torch.bool) * -1e9
    sharpness = 10.0
    relation = F.kl_div(
        F.log_softmax(own @ own.T * sharpness + other, dim=-1),
        F.log_softmax(wanted @ wanted.T * sharpness + other, dim=-1),
        log_target=True,
        reduction="batchmean",
    )
    return direction + recipe.patch_weight * patch + recipe.relation_weight * relation, direction


def batches(views: int, epoch: int, recipe: Recipe) -> Iterator[np.ndarray]:
    """The views of one epoch in random order, sorted inside a batch so that the disk is read forwards."""
    order = np.random.Generator(np.random.Philox(key=[recipe.seed, 1 << 40 | epoch])).permutation(views)
    for start in range(0, views - recipe.batch + 1, recipe.batch):
        yield np.sort(order[start : start + recipe.batch])


def train(targets: Targets, mean: tuple[float, ...], std: tuple[float, ...], recipe: Recipe, folder: Path) -> nn.Module:
    """Stage 2; returns the moving average of the student's weights."""
    student = make_student(recipe)
    average = torch.optim.swa_utils.AveragedModel(
        student, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(recipe.average)
    )
    decayed = [p for p in student.parameters() if p.ndim >= 2 and p.shape[0] != 1]
    plain = [p for p in student.parameters() if not (p.ndim >= 2 and p.shape[0] != 1)]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": plain, "weight_decay": 0.0}],
        lr=recipe.learning_rate,
        betas=(0.9, 0.98),
    )
    views = len(targets.pixels)
    per_epoch = views // recipe.batch
    total = per_epoch * recipe.epochs
    center = torch.from_numpy(targets.embeddings[:: max(1, views // 4096)].astype(np.float32)).mean(0)
    patch_center = torch.from_numpy(targets.patches[:: max(1, views // 1024)].astype(np.float32)).mean((0, 1))
    shift, scale = (torch.tensor(values).view(1, 3, 1, 1) for values in (mean, std))
    saved = folder / "training.pt"
    step = 0
    if saved.exists():
        state = torch.load(saved, weights_only=True)
        for module, name in ((student, "student"), (average, "average"), (optimizer, "optimizer")):
            module.load_state_dict(state[name])
        step = state["step"]
    start, shown = time.monotonic(), []
    for epoch in range(step // per_epoch, recipe.epochs):
        for number, rows in enumerate(batches(views, epoch, recipe)):
            if epoch * per_epoch + number < step:
                continue
            done = step / total
            rate = min(done / recipe.warmup, 0.5 * (1 + math.cos(math.pi * done))) if done < 1 else 0.0
            for group in optimizer.param_groups:
                group["lr"] = recipe.learning_rate * rate
            pixels = torch.from_numpy(targets.pixels[rows])
            embeddings = torch.from_numpy(targets.embeddings[rows]).float() - center
            patches = torch.from_numpy(targets.patches[rows]).float() - patch_center
            if step % 2:  # the mirror image has the mirrored targets
                side = math.isqrt(patches.shape[1])
                pixels = pixels.flip(-1)
                patches = patches.unflatten(1, (side, side)).flip(2).flatten(1, 2)
            share = recipe.kept_patches if done < recipe.all_patches_from else 1.0
            kept = torch.randperm(patches.shape[1], generator=torch.Generator().manual_seed(step))
            kept = kept[: round(share * len(kept))]
            tokens = tokens_of(student, (pixels.float() / 255 - shift) / scale, kept)
            loss, direction = distillation_loss(tokens, embeddings, patches[:, kept], recipe)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(student.parameters(), 1.0)
            optimizer.step()
            average.update_parameters(student)
            step += 1
            shown.append(direction.item())
            if step % 200 == 0 or step == total:
                elapsed = time.monotonic() - start
                print(f"step {step}/{total}  1 - cos {np.mean(shown[-200:]):.4f}  {elapsed:.0f} s", flush=True)
                state = {"student": student.state_dict(), "average": average.state_dict()}
                with new_file(saved, "wb") as stream:
                    torch.save({**state, "optimizer": optimizer.state_dict(), "step": step}, stream)
    return average.module


def main() -> None:
    """Run both stages and write the file with its description."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teacher", required=True, help="anything load_backbone takes")
    parser.add_argument("--images", required=True, type=Path, action="append", help="folder of photos, searched below")
    parser.add_argument("--work", required=True, type=Path, help="folder for the intermediate files (some GB)")
    parser.add_argument("--out", required=True, type=Path, help="the .safetensors file to write")
    for name, value in asdict(Recipe()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    recipe = Recipe(**{name: getattr(arguments, name) for name in asdict(Recipe())})
    begin = time.monotonic()
    teacher = load_backbone(arguments.teacher)
    files = sorted(f for folder in arguments.images for f in folder.rglob("*") if f.suffix.lower() in IMAGE_SUFFIXES)
    targets = make_views(teacher, Views(files, recipe, teacher.image_size), recipe, arguments.work)
    student = train(targets, teacher.mean, teacher.std, recipe, arguments.work)
    tensors = {name: tensor.half().contiguous() for name, tensor in to_checkpoint_keys(student.state_dict()).items()}
    with new_file(arguments.out, "wb") as stream:
        save_file(tensors, stream.name, metadata={"format": "pt"})
    description = {
        "heads": recipe.heads,
        "mean": teacher.mean,
        "std": teacher.std,
        "recipe": asdict(recipe),
        "teacher": Path(arguments.teacher).name,
        "photos": len(files),
        "views": len(targets.pixels),
        "minutes": round((time.monotonic() - begin) / 60, 1),
    }
    write_json(arguments.out.with_name(arguments.out.name + ".json"), description)
    print(f"wrote {arguments.out} ({arguments.out.stat().st_size / 2**20:.1f} MB)")


if __name__ == "__main__":
    main()
