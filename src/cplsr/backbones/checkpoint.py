"""Backbones from one local file in DINO or timm key names."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

from cplsr.backbones.checkpoint_keys import Architecture, read_architecture, translate, unwrap
from cplsr.declared import read_record
from cplsr.errors import InputError, first_line
from cplsr.records.parts import Color, Count

SUFFIXES = (".safetensors", ".pth", ".pt", ".bin")
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HALF = (0.5, 0.5, 0.5)
LAYER_NORM_EPS = 1e-6


@dataclass(frozen=True)
class Sidecar:
    """What a json file beside the checkpoint says that its tensors cannot."""

    heads: Count | None = None
    mean: Color | None = None
    std: Color | None = None


def load_checkpoint(path: Path, heads: int | None) -> nn.Module:
    """Build the transformers model that a key-named checkpoint describes, and fill it strictly."""
    tensors = unwrap(_read(path))
    try:
        architecture = read_architecture(tensors)
        heads = heads or read_sidecar(path).heads or _default_heads(architecture.dim)
        if architecture.dim % heads:
            raise InputError(
                f"{heads} heads do not divide the width {architecture.dim} of {path}: give another --heads"
            )
        model = _empty_model(architecture, heads)
        translated = {name: tensor.float() for name, tensor in translate(tensors, architecture).items()}
        result = model.load_state_dict(translated, strict=False)
    except InputError:
        raise
    except (RuntimeError, ValueError, IndexError, ZeroDivisionError) as error:
        raise InputError(f"the shapes in {path} contradict each other: {' '.join(str(error).split())[:300]}") from error
    missing = [name for name in result.missing_keys if "mask_token" not in name]  # which nothing uses
    if missing or result.unexpected_keys:
        raise InputError(
            f"{path} does not fit a {architecture.family} of {architecture.layers} blocks, width {architecture.dim}: "
            f"missing {missing or 'nothing'}, unexpected {result.unexpected_keys or 'nothing'}"
        )
    return model


def read_sidecar(path: Path) -> Sidecar:
    """Read `<file>.json` beside the checkpoint, if it is there."""
    for candidate in (path.with_name(path.name + ".json"), path.with_suffix(".json")):
        if candidate.is_file():
            return read_record(candidate, Sidecar, "readable as json with heads, mean and std (mend or remove it)")
    return Sidecar()


def checkpoint_colors(path: Path, sidecar: Sidecar) -> tuple[Color, Color]:
    """Mean and std as the json file beside it says, else by the habits of the projects that publish such files."""
    if sidecar.mean is not None and sidecar.std is not None:
        return sidecar.mean, sidecar.std
    mean, std = _colors_by_name(path)
    return sidecar.mean or mean, sidecar.std or std


def _colors_by_name(path: Path) -> tuple[Color, Color]:
    name = path.name.lower()
    if name.startswith(("vit_", "deit3_")):
        return HALF, HALF
    if "dino" not in name and "deit" not in name:
        warnings.warn(
            f"{path.name} does not tell how its images were normalized; ImageNet's mean and std are used: give --mean "
            f"and --std, or write them to {path.name}.json",
            stacklevel=4,
        )
    return IMAGENET_MEAN, IMAGENET_STD


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


def _default_heads(dim: int) -> int:
    if dim % 64:
        raise InputError(
            f"the checkpoint is {dim} wide, not a multiple of 64, so its heads cannot be told: give --heads"
        )
    return dim // 64


def _empty_model(architecture: Architecture, heads: int) -> nn.Module:
    import transformers

    a = architecture
    shared = {
        "hidden_size": a.dim,
        "num_hidden_layers": a.layers,
        "num_attention_heads": heads,
        "patch_size": a.patch_size,
        "image_size": a.image_size,
        "layer_norm_eps": LAYER_NORM_EPS,
        "qkv_bias": a.qkv_bias,
    }
    if a.family in ("vit", "deit"):
        shared["intermediate_size"] = a.hidden
        config = transformers.ViTConfig(**shared) if a.family == "vit" else transformers.DeiTConfig(**shared)
        model_class = transformers.ViTModel if a.family == "vit" else transformers.DeiTModel
        return model_class(config, add_pooling_layer=False)
    if a.hidden % a.dim:
        raise InputError(f"an MLP {a.hidden} wide over tokens {a.dim} wide is not a whole multiple; not supported")
    shared |= {"mlp_ratio": a.hidden // a.dim, "use_mask_token": False}
    if a.family == "dinov2":
        return transformers.Dinov2Model(transformers.Dinov2Config(**shared))
    config = transformers.Dinov2WithRegistersConfig(**shared, num_register_tokens=a.registers)
    return transformers.Dinov2WithRegistersModel(config)
