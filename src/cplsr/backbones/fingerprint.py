"""Content fingerprints of sets of tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def fingerprint_of(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, shapes and float32 values: equal for equal weights, however they were stored."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().to(device="cpu", dtype=torch.float32).contiguous()
        digest.update(f"{name} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.numpy().data)
    return digest.hexdigest()
