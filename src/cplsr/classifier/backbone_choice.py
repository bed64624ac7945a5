"""Which backbone and adapter a classifier runs on, when the user says so and when not."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from cplsr.adapters.attach import adapter_of, detach
from cplsr.adapters.store import load_adapter, read_adapter_info
from cplsr.backbones.backbone import Backbone
from cplsr.backbones.load import DEFAULT_BACKBONE, EMBEDDED_FILE, load_backbone
from cplsr.environment import is_offline
from cplsr.errors import InputError
from cplsr.records.adapter import AdapterInfo

FROZEN = "frozen"
"""As `adapter`: none, not even one that comes with the backbone."""

PACKAGED_ADAPTER = EMBEDDED_FILE.parent / "adapter"
PROBE_SECONDS = 5.0
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")


def prepared_backbone(
    backbone: str | Path | Backbone | None = None,
    adapter: str | Path | None = None,
    *,
    image_size: int | None = None,
    pooling: str = "auto",
    views: str | None = None,
    device: str = "auto",
    precision: str = "fp32",
    **loading: Any,
) -> Backbone:
    """Load a backbone and put its adapter on it; a loaded one is left as it is, its weights are shared.

    The arguments are those of `FewShotClassifier`, and in `loading` whatever else `load_backbone` should know; without
    `image_size` it is the one the adapter was trained at.

    Raises:
        InputError: If one of them cannot be loaded, or they do not fit together.
    """
    info = None if adapter is None or str(adapter) == FROZEN else read_adapter_info(adapter)
    if isinstance(backbone, Backbone):
        asked = {"image_size": image_size, "pooling": None if pooling == "auto" else pooling, "views": views}
        for name, wanted in asked.items():
            loaded = getattr(backbone, name)
            if wanted not in (None, loaded):
                raise InputError(
                    f"{name}={wanted!r} was given with a backbone loaded with {loaded!r}: load it with "
                    f"{name}={wanted!r}, or give its source instead"
                )
        own = sharing_weights(backbone)
    else:
        load: Callable[[str | Path], Backbone] = partial(
            load_backbone,
            image_size=image_size or (None if info is None else info.backbone["image_size"]),
            pooling="depth" if pooling == "auto" else pooling,
            views=views or "plain",
            device=device,
            precision=precision,
            **loading,
        )
        own = load_default(load) if backbone is None else load(backbone)
    if adapter is None and own.adapter is None:
        info = _packaged_adapter(own)
    if adapter is None and info is None:
        return own
    detach(own)
    return own if info is None else load_adapter(own, info.folder)


def default_source() -> str:
    """Choose DINO ViT-S/16 if it is in the local cache or the hub answers within 5 seconds, else the embedded backbone.

    Which of the two must never go unnoticed, so the second comes with a warning.
    """
    if _is_cached(DEFAULT_BACKBONE) or (not is_offline() and _hub_answers(DEFAULT_BACKBONE)):
        return DEFAULT_BACKBONE
    why = "downloads are switched off (HF_HUB_OFFLINE)" if is_offline() else "the hub cannot be reached"
    _warn_of_embedded(why)
    return "embedded"


def load_default(load: Callable[[str], Backbone]) -> Backbone:
    """Load the default backbone by `load`; if its download breaks off, the embedded one, with a warning."""
    source = default_source()
    try:
        return load(source)
    except InputError:
        if source == "embedded":
            raise
        _warn_of_embedded("it could not be downloaded")
        return load("embedded")


def loading_again(described: Mapping[str, Any], source: str) -> dict[str, Any]:
    """With what `load_backbone` makes a backbone again that a record describes, from wherever it is now."""
    is_file = source == "embedded" or Path(source).expanduser().is_file()
    return {
        **{name: described.get(name) for name in ("image_size", "mean", "std", "pooling")},
        "layers": described.get("pooled_layers"),
        "heads": described["heads"] if is_file else None,
        "antialias": described.get("position_interpolation") != "bicubic",
    }


def sharing_weights(backbone: Backbone) -> Backbone:
    """Make a second backbone of the same weight tensors: its adapter can be changed without touching the first."""
    tensors = [*backbone.parameters(), *backbone.buffers()]
    return copy.deepcopy(backbone, {id(tensor): tensor for tensor in tensors})


def without_adapter(backbone: Backbone) -> Backbone:
    """Make a backbone of the same weights without an adapter; the given one keeps its own."""
    return detach(sharing_weights(backbone))


def adapter_kind(backbone: Backbone) -> str | None:
    """The kind of adapter that is on a backbone; `None` without one."""
    return None if backbone.adapter is None else adapter_of(backbone).kind


def _warn_of_embedded(why: str) -> None:
    warnings.warn(
        f"the small embedded backbone is used, because {DEFAULT_BACKBONE} is not in the local cache and {why}: expect "
        "lower accuracy; with a network, or with --backbone FOLDER, the better one is used",
        stacklevel=4,
    )


def _is_cached(repository: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    def is_here(name: str) -> bool:
        return isinstance(try_to_load_from_cache(repository, name), str)

    return is_here("config.json") and any(map(is_here, WEIGHT_FILES))


def _hub_answers(repository: str) -> bool:
    """One request, given up after 5 seconds: in a thread, because looking up a name has no time limit of its own."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    answers: list[object] = []

    def ask() -> None:
        # no network, no name, no certificate, a proxy's page: the libraries below raise nearly all
        with suppress(Exception):
            answers.append(get_hf_file_metadata(hf_hub_url(repository, "config.json"), timeout=PROBE_SECONDS))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PROBE_SECONDS)
    return bool(answers)


def _packaged_adapter(backbone: Backbone) -> AdapterInfo | None:
    """The adapter that comes with the embedded backbone, if there is one and it was trained for just this."""
    if backbone.source != "embedded" or not PACKAGED_ADAPTER.is_dir():
        return None
    info = read_adapter_info(PACKAGED_ADAPTER)
    same = (info.backbone["fingerprint"], info.backbone["image_size"]) == (backbone.fingerprint, backbone.image_size)
    return info if same else None
