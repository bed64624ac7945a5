"""Trained models as ordinary ones: a transformers folder, an ONNX graph, a checkpoint in timm's key names."""
