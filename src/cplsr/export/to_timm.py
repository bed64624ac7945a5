"""A checkpoint in the key names of timm and DINO, adapter folded in."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from cplsr.backbones.backbone import Backbone
from cplsr.backbones.checkpoint_keys import LAYER_NORM_EPS, to_checkpoint_keys
from cplsr.backbones.load import load_backbone
from cplsr.errors import InputError
from cplsr.export.destination import check_free_checkpoint, sidecar_of
from cplsr.export.exported import Exported, checked_difference, merged_copy, on_cpu, origin, probe_images
from cplsr.files import PARTIAL, access_like_folder, new_file, write_json, writing

TOLERANCE = 1e-4
"""Looser than rounding: the key names carry no layer_norm_eps, and readers take 1e-6 where some models have 1e-12."""

_FAMILIES = ("vit", "vit_msn", "deit", "dinov2", "dinov2_with_registers")


def export_timm(backbone: Backbone, path: str | Path) -> Exported:
    """Write a backbone as one `.safetensors` file in timm's key names.

    Beside it goes a `.json` file with what tensors cannot say: heads, mean, std. The file is loaded again and compared
    with `backbone` before it appears.

    Args:
        backbone: what to export; an adapter is folded into the weights.
        path: the file to write; nothing is overwritten.

    Raises:
        InputError: the path is taken, the adapter cannot be folded in, or timm has no such model.

    Example:
        >>> import tempfile
        >>> from cplsr import export_timm, load_backbone
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     exported = export_timm(load_backbone("embedded"), f"{folder}/model.safetensors")
        >>> exported.merged, exported.difference < 1e-4
        (False, True)
    """
    path = Path(path)
    check_free_checkpoint(path)
    source = on_cpu(backbone)
    plain = merged_copy(source)
    tensors = checkpoint_tensors(plain)
    names = ("heads", "mean", "std", "image_size", "patch_size", "dim", "layers", "pooling")
    eps = plain.model.config.layer_norm_eps  # type: ignore[union-attr]
    content = {**{name: getattr(plain, name) for name in names}, "layer_norm_eps": eps, **origin(source)}
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".cplsr-export-", suffix=PARTIAL, dir=path.parent) as staging:
            staged = Path(staging) / path.name
            save_file(tensors, staged, metadata={"format": "pt"})
            access_like_folder(staged)
            difference = _compare(staged, source)
            _place(staged, path, content)
    return Exported(path, merged=source.adapter is not None, difference=difference)


def checkpoint_tensors(plain: Backbone) -> dict[str, Tensor]:
    """The tensors of a backbone without an adapter under the names of timm, for every family that timm has."""
    config: Any = plain.model.config
    if config.model_type not in _FAMILIES:
        raise InputError(
            f"{plain.source!r} is a model of type {config.model_type!r}, which has no place in these key names (there "
            f"are {', '.join(_FAMILIES)}): give --to transformers or --to onnx"
        )
    if getattr(config, "use_swiglu_ffn", False):
        raise InputError(f"{plain.source!r} has gated MLPs, which these key names do not cover: give --to transformers")
    tensors = to_checkpoint_keys(plain.model.state_dict())
    if config.model_type == "dinov2_with_registers":
        # timm gives positions to patches alone here; the class token's is added to the class token: the same sum.
        positions = tensors["pos_embed"]
        tensors["cls_token"] = tensors["cls_token"] + positions[:, :1]
        tensors["pos_embed"] = positions[:, 1:]
    return {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}


def _compare(file: Path, source: Backbone) -> float:
    layers = source.pooled_layers if source.pooling == "depth" else None
    again = load_backbone(
        file, heads=source.heads, mean=source.mean, std=source.std, pooling=source.pooling, layers=layers
    )
    images = probe_images(source, 2)
    eps = source.model.config.layer_norm_eps  # type: ignore[union-attr]
    what = "the checkpoint" if eps == LAYER_NORM_EPS else f"the checkpoint, read with layer_norm_eps 1e-6, not {eps},"
    with torch.inference_mode():
        return checked_difference(again(images), source(images), TOLERANCE, what)


def _place(staged: Path, path: Path, content: dict[str, Any]) -> None:
    """Both files or neither: the description goes first, and away again if the weights cannot follow."""
    sidecar = sidecar_of(path)
    write_json(sidecar, content)
    try:
        with staged.open("rb") as old, new_file(path, "wb") as new:
            shutil.copyfileobj(old, new)
    except BaseException:
        sidecar.unlink(missing_ok=True)
        raise
