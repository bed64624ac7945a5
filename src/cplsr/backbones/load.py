"""One door to every frozen backbone: a hub id, a local folder, a checkpoint file, or the embedded one."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from cplsr.backbones.backbone import Backbone
from cplsr.backbones.checkpoint import IMAGENET_MEAN, IMAGENET_STD, SUFFIXES, Found, load_checkpoint
from cplsr.backbones.families import family_of
from cplsr.backbones.quiet import quiet_transformers
from cplsr.declared import kinds_of
from cplsr.environment import choose_device, choose_precision, keep_freed_memory, nor_in_the_cache
from cplsr.errors import InputError, first_line
from cplsr.named import Named
from cplsr.records.parts import Color
from cplsr.settings.backbone import BackboneSettings

DEFAULT_BACKBONE = "facebook/dino-vits16"
EMBEDDED_FILE = Path(__file__).with_name("embedded") / "embedded.safetensors"
BACKBONES: Named[Callable[[], tuple[nn.Module, Color, Color]]] = Named("backbones", "backbone", {})
"""What other packages bring, by name: a function that gives a vision model of transformers, and its mean and std."""


def load_backbone(
    source: str | Path,
    image_size: int | None = None,
    *,
    heads: int | None = None,
    mean: Color | None = None,
    std: Color | None = None,
    pooling: str = "cls",
    layers: Sequence[int] | None = None,
    views: str = "plain",
    device: str = "cpu",
    precision: str = "fp32",
    antialias: bool = True,
) -> Backbone:
    """Load a frozen vision transformer, without an adapter.

    Args:
        source: a hub id such as `facebook/dino-vits16`, a folder saved by transformers, a file in the key names of DINO
            or timm (`.pth`, `.pt`, `.safetensors`), the name of one that another package brings, or `"embedded"`, the
            small one inside this package.
        image_size: a multiple of the patch size; the position embeddings are interpolated to it. Default: the model's.
        heads: how many attention heads a checkpoint file has, which its shapes do not show. Default: width / 64.
        mean: of the images the model was trained on, for each color; default: what comes with the model.
        std: their standard deviation, likewise.
        pooling: what an embedding is: `cls`, the class token after the final norm; `mean`, the mean of the patch
            tokens; or `depth`, the unit class token and the unit mean of the patch tokens of every block.
        layers: the blocks that `depth` reads, counted from 0, negative from the end; default all.
        views: how often an image is looked at, for the mean of its embeddings: `plain`, once; `mirrored`, also its
            mirror image; `turned`, both at every quarter turn, eight times the work.
        device: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.
        precision: `fp32`, `bf16`, or `auto` for bf16 where the hardware multiplies it.
        antialias: of the position interpolation; `False` is transformers' and DINO's own way.

    Raises:
        InputError: there is no usable model at `source`, or an argument does not fit it.

    Example:
        >>> import cplsr, torch
        >>> backbone = cplsr.load_backbone("embedded")
        >>> backbone(torch.zeros(2, 3, 128, 128, dtype=torch.uint8)).shape
        torch.Size([2, 192])
    """
    target = choose_device(device)
    if target.type == "cpu":
        keep_freed_memory()
    number_format = choose_precision(precision, target)
    model, colors = _find(str(source), heads)
    if mean is None or std is None:
        own_mean, own_std = colors()
        mean, std = mean or own_mean, std or own_std
    mean, std = _checked_color(mean, "mean"), _checked_color(std, "std")
    _own_weights(model)
    backbone = Backbone(model, source=str(source), mean=mean, std=std, pooling=pooling, layers=layers, views=views)
    if image_size is not None:
        backbone.resize(image_size, antialias=antialias)
    if number_format == "bf16":
        backbone.bfloat16()
        backbone.precision = "bf16"
    return backbone.to(target)


def _own_weights(model: nn.Module) -> None:
    """Copy every tensor once, into memory of its own that begins where processors like it.

    transformers leaves weights where the file is mapped, at odd addresses, and on some processors a matrix product
    rounds differently there: the same weights would give other embeddings, depending on the file they came from.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone(memory_format=torch.contiguous_format)


def open_backbone(settings: BackboneSettings, image_size: int | None = None) -> Backbone:
    """Load the backbone that settings describe, at `image_size` if they give none."""
    options = {name: getattr(settings, name) for name in kinds_of(BackboneSettings)}
    return load_backbone(options.pop("backbone"), options.pop("image_size") or image_size, **options)


def _find(source: str, heads: int | None) -> Found:
    """The model behind `source`."""
    if source == "embedded":
        if not EMBEDDED_FILE.is_file():
            raise InputError("this copy of cplsr was built without its embedded backbone: install a released version")
        return load_checkpoint(EMBEDDED_FILE, heads)
    path = Path(source).expanduser()
    if path.is_file():
        if path.suffix not in SUFFIXES:
            raise InputError(f"{source} ends in {path.suffix!r}; a checkpoint ends in {', '.join(SUFFIXES)}")
        return load_checkpoint(path, heads)
    if heads is not None:
        raise InputError(f"--heads is for checkpoint files; {source!r} brings its own number of heads")
    if path.is_dir():
        if not (path / "config.json").is_file():
            names = sorted(file.name for file in path.iterdir() if file.suffix in SUFFIXES)
            raise InputError(
                f"{source} is a folder without config.json: give a folder saved by transformers, or the checkpoint "
                f"file itself ({', '.join(names[:5]) or 'there is none in it'})"
            )
        return _from_transformers(str(path))
    if source in BACKBONES:
        model, mean, std = BACKBONES.find(source)()
        return model, lambda: (mean, std)
    if path.is_absolute() or path.suffix in SUFFIXES or source.startswith((".", "~")) or source.count("/") > 1:
        raise InputError(f"there is no file or folder {source}: give a local path that exists, a hub id, or 'embedded'")
    return _from_transformers(source.removeprefix("hf:"))


def _from_transformers(name: str) -> Found:
    """A folder or hub id through transformers; heads, poolers and decoders on top are not built."""
    from transformers import AutoConfig, AutoModel

    try:
        config = AutoConfig.from_pretrained(name)
        family_of(config, name)
        options: dict[str, Any] = (
            {} if config.model_type.startswith(("dinov", "vit_msn")) else {"add_pooling_layer": False}
        )
        with quiet_transformers(bars=True):  # a download shows how far it is
            model, report = AutoModel.from_pretrained(name, dtype="float32", output_loading_info=True, **options)
    except InputError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        if Path(name).is_dir():
            raise InputError(
                f"the folder {name} is not readable as a transformers model ({first_line(error)})"
            ) from error
        raise InputError(
            f"backbone {name!r} is neither a local path {nor_in_the_cache(error)}: give a folder saved by "
            "transformers, a checkpoint file (.pth, .safetensors), or 'embedded', which needs no network"
        ) from error
    if missing := sorted(key for key in report["missing_keys"] if "mask_token" not in key and "pooler" not in key):
        raise InputError(
            f"{name!r} lacks {len(missing)} of the weights that its config.json promises ({', '.join(missing[:4])}): "
            "they would be random, so it is not used"
        )
    return cast(nn.Module, model), partial(_processor_colors, name)


def _processor_colors(name: str) -> tuple[Color, Color]:
    """Mean and std from preprocessor_config.json; read as json, because some processors need torchvision."""
    from transformers.utils import cached_file

    file = cached_file(
        name,
        "preprocessor_config.json",
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    content = json.loads(Path(file).read_text(encoding="utf-8")) if file else {}
    mean, std = content.get("image_mean"), content.get("image_std")
    if mean is None or std is None:
        warnings.warn(
            f"{name!r} does not tell how its images were normalized; ImageNet's mean and std are used: give --mean and "
            "--std if it was trained otherwise",
            stacklevel=3,
        )
    return tuple(mean or IMAGENET_MEAN), tuple(std or IMAGENET_STD)


def _checked_color(values: Any, name: str) -> Color:
    color = tuple(float(value) for value in values)
    if len(color) != 3 or (name == "std" and min(color) <= 0):
        raise InputError(f"{name} is {values}; three numbers were wanted{', all above 0' if name == 'std' else ''}")
    return color
