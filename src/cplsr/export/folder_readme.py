"""The README.md of an exported transformers folder: what it is, how to load it, how to preprocess."""

from __future__ import annotations

from typing import Any

from cplsr.backbones.backbone import Backbone
from cplsr.data.preprocess import RESIZE_FACTOR
from cplsr.export.exported import crop_of

_TEXT = """\
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


def folder_readme(plain: Backbone, origin: dict[str, Any]) -> str:
    """The text for a merged backbone; `origin` is where it came from before merging."""
    size = plain.image_size
    resized, margin = crop_of(size)
    with_pooler = not plain.model.config.model_type.startswith(("dinov", "vit_msn"))  # type: ignore[union-attr, operator]
    return _TEXT.format(
        image_size=size,
        what=_what(origin),
        options=", add_pooling_layer=False" if with_pooler else "",
        output_options=", output_hidden_states=True" if plain.pooling == "depth" else "",
        embedding=_embedding(plain),
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


def _embedding(plain: Backbone) -> str:
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
