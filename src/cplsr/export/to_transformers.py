"""A folder that `transformers.AutoModel.from_pretrained` opens, adapter folded in, without this package."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cplsr.backbones.backbone import Backbone
from cplsr.backbones.pooling import pool
from cplsr.backbones.quiet import quiet_transformers
from cplsr.export.destination import check_free_folder
from cplsr.export.exported import Exported, checked_difference, crop_of, merged_copy, on_cpu, origin, probe_images
from cplsr.export.folder_readme import folder_readme
from cplsr.files import access_like_folder, new_folder, write_file, write_json

TOLERANCE = 1e-5


def export_transformers(backbone: Backbone, path: str | Path) -> Exported:
    """Write a backbone as a folder that `transformers.AutoModel.from_pretrained` opens.

    The folder holds `config.json`, `model.safetensors`, `preprocessor_config.json`, `README.md` and `export.json`, with
    position embeddings for the image size of `backbone`. It is opened again by transformers and compared with
    `backbone` before it appears.

    Args:
        backbone: what to export; an adapter is folded into the weights.
        path: the folder to write; nothing is overwritten.

    Raises:
        InputError: the path is taken, or the adapter cannot be folded in.
    """
    path = Path(path)
    check_free_folder(path)
    source = on_cpu(backbone)
    plain = merged_copy(source)
    source_origin = origin(source)
    with new_folder(path) as folder:
        with quiet_transformers():
            plain.model.save_pretrained(folder)  # type: ignore[operator]
        for weights in folder.glob("*.safetensors"):  # written for the owner alone, unlike everything else
            access_like_folder(weights)
        write_json(folder / "preprocessor_config.json", processor_config(plain))
        write_json(folder / "export.json", source_origin)
        write_file(folder / "README.md", folder_readme(plain, source_origin))
        difference = _compare(folder, source)
    _tell_of_the_crop(plain)
    return Exported(path, merged=source.adapter is not None, difference=difference)


def processor_config(backbone: Backbone) -> dict[str, Any]:
    """Make `preprocessor_config.json`: the same stretch, crop and colors, in the terms of transformers.

    `BitImageProcessor` is the one that both resizes to a given height and width and crops, in every version.
    """
    size = backbone.image_size
    resized, _ = crop_of(size)
    return {
        "image_processor_type": "BitImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": {"height": resized, "width": resized},
        "resample": 3,  # Pillow's BICUBIC
        "do_center_crop": True,
        "crop_size": {"height": size, "width": size},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(backbone.mean),
        "image_std": list(backbone.std),
    }


def _tell_of_the_crop(plain: Backbone) -> None:
    size = plain.image_size
    resized, margin = crop_of(size)
    if (theirs := (resized - size) // 2) != margin:
        warnings.warn(
            f"at {size} px the image processor of transformers crops from pixel {theirs} on, cplsr from pixel "
            f"{margin}: README.md in the folder has the exact preprocessing",
            stacklevel=3,
        )


def _compare(folder: Path, source: Backbone) -> float:
    from transformers import AutoModel

    with quiet_transformers():
        model = AutoModel.from_pretrained(folder).eval()
    images = probe_images(source, 2)
    with torch.inference_mode():
        output = model(images, output_hidden_states=True)
        norm = model.get_submodule(source.family.final_norm)
        normed = [*map(norm, output.hidden_states[1:-1]), output.last_hidden_state]
        parts = [pool(normed[layer], nn.Identity(), source.patches, source.pooling) for layer in source.pooled_layers]
        result = torch.cat(parts, dim=-1)
        return checked_difference(result, source(images), TOLERANCE, f"the folder, opened by {type(model).__name__},")
