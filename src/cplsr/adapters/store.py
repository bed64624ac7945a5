"""Adapters on disk and on the hub: a folder with `adapter.safetensors` and `adapter.json`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from cplsr.adapters.attach import adapter_of, attach, detach
from cplsr.adapters.base import fingerprint
from cplsr.adapters.coalescent import mean_of_projections
from cplsr.adapters.kinds import default_options
from cplsr.backbones.backbone import Backbone
from cplsr.environment import nor_in_the_cache, versions
from cplsr.errors import InputError, first_line
from cplsr.files import access_like_folder, new_folder, sha256_of
from cplsr.records.adapter import DESCRIPTION, AdapterInfo
from cplsr.records.parts import BackboneInfo

TENSORS = "adapter.safetensors"


def save_adapter(backbone: Backbone, path: str | Path, **info: Any) -> Path:
    """Write the adapter of a backbone to a folder, whole or not at all, and return its path.

    Args:
        backbone: the backbone that carries the adapter.
        path: the folder to write; an older adapter there is replaced.
        **info: anything worth keeping with it that JSON can hold, such as training settings and metrics.

    Raises:
        InputError: there is no adapter, or the folder is not empty and holds something else.

    Example:
        >>> import tempfile
        >>> from cplsr import attach, load_adapter, load_backbone, save_adapter
        >>> trained = attach(load_backbone("embedded"), "coalescent")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = save_adapter(trained, f"{folder}/mine", accuracy=0.9)
        ...     loaded = load_adapter(load_backbone("embedded"), path)
        >>> loaded.adapter_fingerprint == trained.adapter_fingerprint
        True
    """
    adapter = adapter_of(backbone)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in adapter.state_dict().items()}
    return _write(Path(path), tensors, adapter.kind, adapter.options, backbone.description(), info)


def average_adapters(sources: Sequence[str | Path], path: str | Path) -> Path:
    """Write the mean of several coalescent adapters of the same backbone to a folder, and return its path.

    It is the mean of every C, with P Pᵀ = C where they are so constrained; embeddings are not averaged by that.

    Args:
        sources: adapter folders, run folders that hold one, or hub repositories; at least two.
        path: the folder to write; an older adapter there is replaced.

    Raises:
        InputError: the adapters are not alike, or of a kind whose parameters have no meaningful mean.
    """
    first, *others = stored = [read_adapter_info(source) for source in sources]
    if not others:
        raise InputError("one adapter has no mean with others: give at least two")
    if first.kind != "coalescent":
        raise InputError(f"{first.folder} is a {first.kind!r} adapter: only coalescent projections are averaged")
    if first.options.get("rank") is not None:
        raise InputError(f"{first.folder} has projections of rank {first.options['rank']}, whose mean has a higher one")
    tensors = [_read_tensors(each) for each in stored]
    shapes = [{name: tensor.shape for name, tensor in own.items()} for own in tensors]
    for each, own in zip(others, shapes[1:], strict=True):
        if _made_as(each) != _made_as(first) or own != shapes[0]:
            raise InputError(
                f"{each.folder} and {first.folder} differ in kind, options, shapes or backbone: give adapters of runs "
                "that differ in seed and training only"
            )
    info: dict[str, Any] = {"shot": first.shot if {each.shot for each in stored} == {first.shot} else None}
    info["averaged"] = [each.fingerprint for each in stored]
    return _write(
        Path(path), mean_of_projections(tensors, **first.options), first.kind, first.options, first.backbone, info
    )


def _made_as(stored: AdapterInfo) -> tuple[Any, ...]:
    """What adapters must have in common to be averaged, beside the shapes of their parameters."""
    return stored.kind, stored.backbone["fingerprint"], default_options("coalescent") | stored.options | {"seed": 0}


def _write(
    path: Path, tensors: dict[str, Tensor], kind: str, options: dict[str, Any], backbone: BackboneInfo, info: Any
) -> Path:
    other = path.exists() and not (path / DESCRIPTION).is_file()
    if other and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"{path} exists and is not an adapter folder, so it is not overwritten: give another path")
    with new_folder(path) as folder:
        # One entry of metadata only: several would be written in a random order, and equal adapters be unequal files.
        save_file(tensors, folder / TENSORS, metadata={"format": "pt"})
        access_like_folder(folder / TENSORS)
        AdapterInfo(
            kind=kind,
            options=options,
            backbone=backbone,
            info=info,
            versions=versions(),
            fingerprint=fingerprint(kind, options, tensors),
            sha256=sha256_of(folder / TENSORS),
        ).write(folder)
    return path


def load_adapter(backbone: Backbone, source: str | Path) -> Backbone:
    """Attach a stored adapter to a backbone, in place, and return the same backbone.

    It warns if the adapter was trained on another backbone of the same shapes.

    Args:
        backbone: the backbone to change; it must not carry an adapter yet.
        source: an adapter folder, a run folder that holds one, or a hub repository (`hf:user/name` or `user/name`).

    Raises:
        InputError: there is no readable adapter at `source`, or it does not fit the shapes of the backbone.
    """
    stored = read_adapter_info(source)
    tensors = _read_tensors(stored)
    try:
        attach(backbone, stored.kind, **stored.options)
    except (TypeError, AttributeError, OverflowError, RuntimeError) as error:  # anybody may have edited the options
        raise InputError(
            f"{stored.folder / DESCRIPTION} has options that a {stored.kind} adapter cannot have ({error}): save or "
            "download the adapter again"
        ) from error
    try:
        _fill(backbone, tensors, stored)
    except InputError:
        detach(backbone)
        raise
    if stored.backbone["fingerprint"] != backbone.fingerprint:
        warnings.warn(
            f"the adapter {source} was trained on {stored.backbone['source']!r}, whose weights are not those of "
            f"{backbone.source!r}: expect it to do little good",
            stacklevel=2,
        )
    return backbone


def read_adapter_info(source: str | Path) -> AdapterInfo:
    """Read what an adapter is without loading it."""
    return AdapterInfo.read(find_adapter(source))


def find_adapter(source: str | Path) -> Path:
    """Find the adapter folder that `source` names: itself, the `adapter` in a run folder, or a copy from the hub.

    Raises:
        InputError: there is none, here or on the hub.
    """
    text = str(source)
    if not text.startswith("hf:"):
        path = Path(text).expanduser()
        for folder in (path, path / "adapter"):
            if (folder / DESCRIPTION).is_file():
                return folder
        if path.exists() or path.is_absolute() or text.startswith(".") or text.count("/") != 1:
            raise InputError(
                f"there is no adapter at {text}: give a folder with {DESCRIPTION}, a run folder, or hf:user/name"
            )
    return _download(text.removeprefix("hf:"))


def push_adapter(path: Any, repository: str = "", *, private: bool = False, token: str | None = None) -> str:
    """Upload a stored adapter to the Hugging Face hub.

    Args:
        path: an adapter folder, or a run folder that holds one.
        repository: `user/name`; it is made if it does not exist.
        private: whether a new repository is private.
        token: your access token; default: the one you are logged in with.

    Returns:
        The address of the upload.

    Raises:
        InputError: there is no adapter at `path`, no repository was named, or the hub refused it.
    """
    if not isinstance(path, (str, Path)) or not repository:
        given = f"a {type(path).__name__}" if not isinstance(path, (str, Path)) else "no repository"
        raise InputError(
            f"push_adapter was given {given}: it wants the folder of a stored adapter and a repository; "
            "save_adapter(backbone, 'folder'), then push_adapter('folder', 'user/name')"
        )
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    folder = find_adapter(path)
    read_adapter_info(folder)
    api = HfApi(token=token)
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        result = api.upload_folder(
            repo_id=repository, folder_path=folder, allow_patterns=[TENSORS, DESCRIPTION], commit_message="Add adapter"
        )
    except (HfHubHTTPError, OfflineModeIsEnabled, OSError, ValueError) as error:
        raise InputError(
            f"the adapter could not be pushed to {repository!r} ({first_line(error)}): check the network, the name "
            "(user/name) and that you are logged in (hf auth login)"
        ) from error
    return str(result)


def _download(repository: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repository, allow_patterns=[TENSORS, DESCRIPTION]))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise InputError(
            f"adapter {repository!r} is neither a local folder {nor_in_the_cache(error)}: give a local adapter or run "
            "folder"
        ) from error


def _read_tensors(stored: AdapterInfo) -> dict[str, Tensor]:
    file = stored.folder / TENSORS
    try:
        if sha256_of(file) != stored.sha256:
            raise InputError(f"{file} is not the file that {DESCRIPTION} describes: save or download the adapter again")
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{file} is not readable ({error}): save or download the adapter again") from error


def _fill(backbone: Backbone, tensors: dict[str, Tensor], stored: AdapterInfo) -> None:
    adapter = adapter_of(backbone)
    own = {name: tuple(tensor.shape) for name, tensor in adapter.state_dict().items()}
    given = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if own != given:
        name = next(name for name in sorted(own.keys() | given.keys()) if own.get(name) != given.get(name))
        trained_on = stored.backbone
        raise InputError(
            f"the adapter {stored.folder} does not fit: its {name} is {given.get(name, 'absent')}, here it would be "
            f"{own.get(name, 'absent')}. It was trained on {trained_on['source']!r} ({trained_on['layers']} layers, "
            f"{trained_on['heads']} heads, {trained_on['image_size']} px); this backbone is {backbone.source!r} "
            f"({backbone.layers} layers, {backbone.heads} heads, {backbone.image_size} px)"
        )
    adapter.load_state_dict(tensors)
    adapter.temperature = stored.temperature
    # As they were stored, without options that came later: they are part of the fingerprint.
    adapter.options = dict(stored.options)
