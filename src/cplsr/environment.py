"""What this machine offers: device, number format, cache folder, network permission, library versions."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cplsr.errors import InputError, first_line
from cplsr.version import __version__

if TYPE_CHECKING:
    import torch

LIBRARIES = ("torch", "transformers", "numpy", "pillow", "safetensors", "scikit-learn", "scipy", "accelerate")
EXTRAS = {
    "app": ("gradio", "pillow-heif"),
    "heic": ("pillow-heif",),
    "hub": ("datasets",),
    "lora": ("peft",),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "ray": ("ray",),
    "viz": ("matplotlib", "umap-learn"),
}


def cache_folder() -> Path:
    """Folder for everything that can be made again: `CPLSR_CACHE`, else `cplsr` in the user's cache folder."""
    chosen = os.environ.get("CPLSR_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cplsr"


def is_offline() -> bool:
    """Whether the user has forbidden downloads (`HF_HUB_OFFLINE` or `TRANSFORMERS_OFFLINE`)."""
    return any(
        os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"}
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    )


def nor_in_the_cache(error: Exception) -> str:
    """Why something of the hub is not here, for a sentence: downloads are forbidden, or what the hub said."""
    from huggingface_hub.constants import HF_HUB_CACHE

    reason = f"it could not be downloaded ({first_line(error)})"
    if is_offline():
        reason = "downloads are switched off (HF_HUB_OFFLINE)"
    return f"nor in the cache {HF_HUB_CACHE}, and {reason}"


def installed_version(distribution: str) -> str | None:
    """Version of an installed distribution, `None` where it is absent; nothing is imported."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions() -> dict[str, str]:
    """Return the versions of everything that a run depends on, for its record."""
    installed = {name: installed_version(name) for name in LIBRARIES}
    known = {name: version for name, version in installed.items() if version is not None}
    return {"cplsr": __version__, "python": platform.python_version(), **known}


def choose_device(name: str = "auto") -> torch.device:
    """Turn `auto` into cuda, mps or cpu, and check that a named device exists."""
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device {name!r} is not known: give auto, cpu, cuda, cuda:N or mps") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError("device 'cuda' was asked for, but this torch sees no CUDA device: give --device cpu or auto")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise InputError("device 'mps' was asked for, but this torch sees no Apple GPU: give --device cpu or auto")
    return device


def has_fast_bf16(device: torch.device) -> bool:
    """Whether bfloat16 matrix products are done in hardware on `device`, not emulated in float32."""
    import torch

    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        return _cpu_has_bf16()
    return False


def _cpu_has_bf16() -> bool:
    if sys.platform != "linux":
        return False
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    except OSError:
        return False
    return bool({"amx_bf16", "avx512_bf16"} & set(flags))


def keep_freed_memory() -> bool:
    """Let glibc keep memory that was freed, up to 1 GB, instead of giving it back and fetching it again at once.

    The activations of a transformer on a CPU are megabytes each, freed and asked for again in every layer; by default
    each of them is a run of page faults, which costs up to a third of the time. Other allocators are left alone.

    Returns:
        Whether it could be done.
    """
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    m_trim_threshold, m_top_pad, m_mmap_threshold = -1, -2, -3
    settings = ((m_mmap_threshold, 32 << 20), (m_trim_threshold, 1 << 30), (m_top_pad, 64 << 20))
    done = [mallopt(option, value) == 1 for option, value in settings]
    return all(done)


def choose_precision(name: str, device: torch.device) -> Literal["fp32", "bf16"]:
    """Turn `auto` into bf16 where the hardware multiplies it natively, else fp32."""
    if name not in ("auto", "fp32", "bf16"):
        raise InputError(f"precision {name!r} is not known: give auto, fp32 or bf16")
    return "bf16" if name == "bf16" or (name == "auto" and has_fast_bf16(device)) else "fp32"
