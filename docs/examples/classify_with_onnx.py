"""Classes of images by an exported classifier (--raw-pixels): python classify_with_onnx.py model.onnx IMAGE ..."""
# ruff: noqa: T201

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
about = {name: json.loads(text) for name, text in session.get_modelmeta().custom_metadata_map.items()}
size, side = about["image_size"], about["resize_to"]
margin = round((side - size) / 2)

for file in sys.argv[2:]:
    image = ImageOps.exif_transpose(Image.open(file)).convert("RGB").resize((side, side), Image.Resampling.BICUBIC)
    pixels = np.asarray(image)[None, margin : margin + size, margin : margin + size].transpose(0, 3, 1, 2)
    probabilities = session.run(None, {"pixels": pixels})[0][0]
    print(f"{probabilities.max():.6f} {about['classes'][probabilities.argmax()]} {file}")
