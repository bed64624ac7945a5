"""How alike images are, by an exported checkpoint: python embed_with_timm_keys.py model.safetensors IMAGE IMAGE ..."""
# ruff: noqa: T201

import sys

import numpy as np
import torch
from PIL import Image

import cplsr
from cplsr.data.preprocess import preprocess

checkpoint, *files = sys.argv[1:]
backbone = cplsr.load_backbone(checkpoint)  # heads, mean and std are in the json file beside it

pixels = np.stack([preprocess(Image.open(file), backbone.image_size) for file in files])
with torch.inference_mode():
    embeddings = torch.nn.functional.normalize(backbone(torch.from_numpy(pixels)), dim=-1)

for file, cosine in zip(files, (embeddings @ embeddings[0]).tolist(), strict=True):
    print(f"{cosine:.6f} {file}")
