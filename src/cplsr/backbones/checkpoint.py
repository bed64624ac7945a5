"""Backbones from one local file in DINO or timm key names."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

from cplsr.backbones.checkpoint_keys import read_config, translate, unwrap
from cplsr.declared import read_record
from cplsr.errors import InputError, first_line
from cplsr.records.parts import Color, Count

SUFFIXES = (".safetensors", ".pth", ".pt", ".bin")
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HALF = (0.5, 0.5, 0.5)

Found = tuple[nn.Module, Callable[[], tuple[Color, Color]]]
"""A model, and what tells the mean and std of its images, which warns where it must guess."""


@dataclass(frozen=True)
class Sidecar:
    """What a json file beside the checkpoint says that its tensors cannot."""

    heads: Count | None = None
    mean: Color | None = None
    std: Color | None = None


def load_checkpoint(path: Path, heads: int | None) -> Found:
    """Build the transformers model that a key-named checkpoint describes, and fill it strictly."""
    from transformers import AutoModel

    sidecar = _read_sidecar(path)
    tensors = unwrap(_read(path))
    try:
        config = read_config(tensors, heads or sidecar.heads)
        if config.hidden_size % config.num_attention_heads:
            raise InputError(
                f"{config.num_attention_heads} heads do not divide the width {config.hidden_size} of {path}: give "
                "another --heads"
            )
        pooler = {"add_pooling_layer": False} if config.model_type in ("vit", "deit") else {}
        model = AutoModel.from_config(config, **pooler)
        translated = {name: tensor.float() for name, tensor in translate(tensors, config).items()}
        result = model.load_state_dict(translated, strict=False)
    except InputError:
        raise
    except (RuntimeError, ValueError, IndexError, ZeroDivisionError) as error:
        raise InputError(f"the shapes in {path} contradict each other: {' '.join(str(error).split())[:300]}") from error
    missing = [name for name in result.missing_keys if "mask_token" not in name]  # which nothing uses
    if missing or result.unexpected_keys:
        raise InputError(
            f"{path} does not fit a {config.model_type} of {config.num_hidden_layers} blocks, width "
            f"{config.hidden_size}: missing {missing or 'nothing'}, unexpected {result.unexpected_keys or 'nothing'}"
        )
    return model, partial(_colors, path, sidecar)


def _read_sidecar(path: Path) -> Sidecar:
    """What `<file>.json` beside the checkpoint says, if it is there."""
    for candidate in (path.with_name(path.name + ".json"), path.with_suffix(".json")):
        if candidate.is_file():
            return read_record(candidate, Sidecar, "readable as json with heads, mean and std (mend or remove it)")
    return Sidecar()


def _colors(path: Path, sidecar: Sidecar) -> tuple[Color, Color]:
    """Mean and std as the json file beside it says, else by the habits of the projects that publish such files."""
    if sidecar.mean is not None and sidecar.std is not None:
        return sidecar.mean, sidecar.std
    mean, std, name = IMAGENET_MEAN, IMAGENET_STD, path.name.lower()
    if name.startswith(("vit_", "deit3_")):
        mean, std = HALF, HALF
    elif "dino" not in name and "deit" not in name:
        warnings.warn(
            f"{path.name} does not tell how its images were normalized; ImageNet's mean and std are used: give --mean "
            f"and --std, or write them to {path.name}.json",
            stacklevel=3,
        )
    return sidecar.mean or mean, sidecar.std or std


def _read(path: Path) -> object:
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path} holds more than tensors, and loading it could run code, so it was not loaded "
            f"({first_line(error)}): save its state dictionary alone, best as .safetensors"
        ) from error
    except Exception as error:  # the readers raise nearly anything on damaged bytes, and nothing else runs here
        raise InputError(
            f"{path} is not readable as a checkpoint ({first_line(error)}): is the download complete?"
        ) from error
