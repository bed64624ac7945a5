"""Tensors on disk: one safetensors file that appears whole or not at all and notices every changed byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from cplsr.errors import InputError
from cplsr.files import access_like_folder, new_file


class DamagedFileError(InputError):
    """The file is not what was written."""


def write_tensors(path: Path | str, tensors: Mapping[str, Tensor], content: Mapping[str, Any], *, kind: str) -> None:
    """Write tensors by name, and further content that JSON can hold, to one file with a checksum, whole or not at all.

    `kind` is the name of the format, which `read_tensors` checks.
    """
    text = json.dumps(dict(content), sort_keys=True, allow_nan=False)
    ready = {name: tensor.contiguous() for name, tensor in tensors.items()}
    metadata = {"format": kind, "options": text, "sha256": checksum_of(ready, text)}
    with new_file(path, "wb") as stream:
        # By name and not through the stream: safetensors would first build all bytes in memory a second time.
        save_file(ready, stream.name, metadata)
        access_like_folder(stream.name)


def read_tensors(path: Path | str, *, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote; the tensors are mapped from the file, not copied.

    Raises:
        DamagedFileError: the file is of another kind, or its checksum is wrong.
        InputError: there is no file.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no {path}: make it first")
    try:
        with safe_open(path, framework="pt") as stored:
            metadata = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - not a mapping
    except Exception as error:  # damage inside of the header shows as nearly anything
        raise DamagedFileError(f"{path} cannot be read ({error}): make it again") from error
    if metadata.get("format") != kind:
        raise DamagedFileError(f"{path} is not a file of {kind!r}: make it again")
    if metadata.get("sha256") != checksum_of(tensors, metadata.get("options", "")):
        raise DamagedFileError(f"{path} is damaged (wrong checksum): make it again")
    return tensors, json.loads(metadata["options"])


def checksum_of(tensors: Mapping[str, Any], text: str = "") -> str:
    """SHA-256 over a text and the names, number formats, shapes and bytes of tensors or of arrays of numpy."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if isinstance(tensor, Tensor):  # some of whose number formats numpy does not know
            tensor = tensor.reshape(-1).view(torch.uint8).numpy()
        digest.update(np.ascontiguousarray(tensor).data)
    return digest.hexdigest()
