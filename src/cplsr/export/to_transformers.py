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
from cplsr.data.preprocess import RESIZE_FACTOR, crop_of
from cplsr.export.destination import check_free_folder
from cplsr.export.exported import Exported, checked_difference, merged_copy, on_cpu, origin, probe_images
from cplsr.files import access_like_folder, new_folder, write_file, write_json

TOLERANCE = 1e-5
_README = """\
---
library_name: transformers
pipeline_tag: image-feature-extraction
---
# Image embeddings, {image_size} px

{what}

```python
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModel

processor = AutoImageProcessor.from_pretrained(FOLDER)
model = AutoModel.from_pretrained(FOLDER{options}).eval()
images = [Image.open("photo.jpg")]
with torch.no_grad():
    output = model(**processor(images, return_tensors="pt"){output_options})
{embedding}  # ({dim} numbers for each image)
```
{pooler}

## Preprocessing
1. Stretch the image to {resized} x {resized} pixels, int({factor} * {image_size}), by Pillow's BICUBIC filter.
2. Cut out the center {image_size} x {image_size} pixels, from row and column {margin} on.
3. Divide by 255, take off the mean {mean}, and divide by {std} (red, green, blue).

```python
import numpy as np
import torch
from PIL import Image, ImageOps

def pixels(image: Image.Image) -> torch.Tensor:
    image = ImageOps.exif_transpose(image).convert("RGB").resize(({resized}, {resized}), Image.Resampling.BICUBIC)
    square = np.asarray(image)[{margin}:{end}, {margin}:{end}].astype(np.float32) / 255
    square = (square - np.array({mean}, np.float32)) / np.array({std}, np.float32)
    return torch.from_numpy(square).permute(2, 0, 1)
```
{processor}
Neither treats two rare kinds of images as cplsr does, which puts transparent ones on white and scales
those of more than 8 bits to 0-255.

## Origin
{origin}
"""


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
        write_file(folder / "README.md", _readme(plain, source_origin))
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


def _readme(plain: Backbone, origin: dict[str, Any]) -> str:
    """The text for a merged backbone; `origin` is where it came from before merging."""
    size = plain.image_size
    resized, margin = crop_of(size)
    with_pooler = not plain.model.config.model_type.startswith(("dinov", "vit_msn"))  # type: ignore[union-attr, operator]
    return _README.format(
        image_size=size,
        what=_what(origin),
        options=", add_pooling_layer=False" if with_pooler else "",
        output_options=", output_hidden_states=True" if plain.pooling == "depth" else "",
        embedding=_reading(plain),
        dim=plain.embedding_dim,
        pooler="There is no pooler: without `add_pooling_layer=False` transformers makes up a random one, so that "
        "`pooler_output` means nothing."
        if with_pooler
        else "`last_hidden_state` holds all tokens after the final norm, the class token first.",
        resized=resized,
        factor=RESIZE_FACTOR,
        margin=margin,
        end=margin + size,
        mean=list(plain.mean),
        std=list(plain.std),
        processor=_processor(resized, size, margin),
        origin=_origin(origin),
    )


def _reading(plain: Backbone) -> str:
    """Code that reads the embedding from `output`."""
    if plain.pooling == "cls":
        return "embedding = output.last_hidden_state[:, 0]"
    mean = f"[:, -{plain.patches}:].mean(dim=1)"
    if plain.pooling == "mean":
        return f"embedding = output.last_hidden_state{mean}"
    return (
        "# the class token and the mean of the patches after each block, each after the final norm and of length one\n"
        f"blocks = [*map(model.{plain.family.final_norm}, output.hidden_states[1:-1]), output.last_hidden_state]\n"
        f"parts = [part for i in {list(plain.pooled_layers)} for part in (blocks[i][:, 0], blocks[i]{mean})]\n"
        "embedding = torch.cat([torch.nn.functional.normalize(part, dim=-1) for part in parts], dim=-1)"
    )


def _what(origin: dict[str, Any]) -> str:
    source, adapter = origin["backbone"]["source"], origin["adapter"]
    if adapter is None:
        return f"A frozen vision transformer, `{source}`, as it is."
    return (
        f"The vision transformer `{source}` with a trained `{adapter['kind']}` adapter folded into its weights: an "
        "ordinary model, with no overhead and nothing else to install."
    )


def _processor(resized: int, size: int, margin: int) -> str:
    rounded_down = (resized - size) // 2
    shift = (
        "crops the same pixels."
        if rounded_down == margin
        else f"crops from {rounded_down} on, one pixel beside {margin}, because it rounds the margin down."
    )
    return (
        "The `AutoImageProcessor` of this folder does the same without turning images by their EXIF orientation, and\n"
        f"{shift} With torchvision installed it resizes by torchvision's filter, which differs a little from Pillow's."
    )


def _origin(origin: dict[str, Any]) -> str:
    backbone, adapter = origin["backbone"], origin["adapter"]
    lines = [
        f"- backbone `{backbone['source']}`, weights {backbone['fingerprint'][:16]}",
        f"- position embeddings: interpolation {backbone['position_interpolation']}",
    ]
    if adapter is not None:
        lines.append(f"- adapter `{adapter['kind']}` {adapter['options']}, parameters {adapter['fingerprint'][:16]}")
    lines.append(f"- written by cplsr {origin['versions']['cplsr']}; `export.json` has the rest")
    return "\n".join(lines)
