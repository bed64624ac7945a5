"""How alike images are, by an exported transformers folder: python embed_with_transformers.py FOLDER IMAGE IMAGE ..."""
# ruff: noqa: T201

import sys

import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModel

folder, *files = sys.argv[1:]
processor = AutoImageProcessor.from_pretrained(folder)
model = AutoModel.from_pretrained(folder).eval()

images = [Image.open(file) for file in files]
with torch.inference_mode():
    tokens = model(**processor(images, return_tensors="pt")).last_hidden_state
embeddings = torch.nn.functional.normalize(tokens[:, 0], dim=-1)  # the class token

for file, cosine in zip(files, (embeddings @ embeddings[0]).tolist(), strict=True):
    print(f"{cosine:.6f} {file}")
