"""Where an export goes: a place that is free. Looked at before anything heavy is loaded, and again before writing."""

from __future__ import annotations

from pathlib import Path

from cplsr.errors import InputError


def check_free_folder(path: Path) -> None:
    """Refuse a place for a folder where something is; an empty folder may be replaced."""
    _check_parent(path)
    if path.is_dir():
        if any(path.iterdir()):
            raise InputError(f"the folder {path} is not empty, and nothing is overwritten: give another one")
    elif path.exists():
        raise InputError(f"{path} is a file; a folder is written here, and nothing is overwritten: give another path")


def check_free_file(path: Path, suffix: str) -> None:
    """Refuse a place for a file where something is, or a name that does not end as such files do."""
    _check_parent(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; a file was wanted: give {path / ('model' + suffix)}")
    if path.suffix != suffix:
        raise InputError(f"{path} was given as the file to write; its name must end in {suffix}")
    if path.exists() and path.stat().st_size > 0:
        raise InputError(f"{path} is there already and not empty, and nothing is overwritten: give another path")


def sidecar_of(path: Path) -> Path:
    """The json file that goes with a checkpoint."""
    return path.with_name(path.name + ".json")


def check_free_checkpoint(path: Path) -> None:
    """Refuse a place for a checkpoint unless it is free, and that of its json file too."""
    check_free_file(path, ".safetensors")
    check_free_file(sidecar_of(path), ".json")


def _check_parent(path: Path) -> None:
    existing = next((parent for parent in path.absolute().parents if parent.exists()), None)
    if existing is not None and not existing.is_dir():
        raise InputError(f"{path} cannot be written because {existing} is a file, not a folder: give another path")
