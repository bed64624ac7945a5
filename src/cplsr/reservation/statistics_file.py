"""Statistics on disk: one safetensors file that appears whole or not at all and notices every changed byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from cplsr.errors import InputError
from cplsr.files import access_like_folder, new_file

FORMAT = "cplsr class statistics 1"


class DamagedStatisticsError(InputError):
    """The file is not what was written; the statistics must be made again."""


def write_statistics(path: Path | str, tensors: Mapping[str, Tensor], options: Mapping[str, Any]) -> None:
    """Write tensors and options (anything JSON can hold) with a SHA-256 over both."""
    text = json.dumps(dict(options), sort_keys=True, allow_nan=False)
    ready = {name: tensor.contiguous() for name, tensor in tensors.items()}
    metadata = {"format": FORMAT, "options": text, "sha256": _checksum(ready, text)}
    with new_file(path, "wb") as stream:
        # By name and not through the stream: safetensors would first build all bytes in memory a second time.
        save_file(ready, stream.name, metadata)
        access_like_folder(stream.name)


def read_statistics(path: Path | str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and options back and compare the checksum. The tensors are mapped from the file, not copied."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there are no statistics at {path}: make them first")
    try:
        with safe_open(path, framework="pt") as stored:
            metadata = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, OSError, ValueError) as error:
        raise DamagedStatisticsError(f"the statistics at {path} cannot be read ({error}): make them again") from error
    if metadata.get("format") != FORMAT:
        raise DamagedStatisticsError(f"{path} is not a file of {FORMAT!r}: make the statistics again")
    if metadata.get("sha256") != _checksum(tensors, metadata.get("options", "")):
        raise DamagedStatisticsError(f"the statistics at {path} are damaged (wrong checksum): make them again")
    return tensors, json.loads(metadata["options"])


def _checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().reshape(-1).data)
    return digest.hexdigest()
