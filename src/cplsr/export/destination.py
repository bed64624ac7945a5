"""Where an export goes: checked before anything heavy is loaded, and again before writing."""

from __future__ import annotations

from pathlib import Path

from cplsr.errors import InputError
from cplsr.files import check_writable


def check_free_folder(path: Path) -> None:
    """Raise `InputError` unless a folder can be written at `path`; an empty one there may be replaced."""
    check_writable(path)
    if path.is_dir():
        if any(path.iterdir()):
            raise InputError(f"the folder {path} is not empty, and nothing is overwritten: give another one")
    elif path.exists():
        raise InputError(f"{path} is a file; a folder is written here, and nothing is overwritten: give another path")


def check_free_file(path: Path, suffix: str) -> None:
    """Raise `InputError` unless a file of this kind can be written at `path`; an empty one there may be replaced."""
    check_writable(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; a file was wanted: give {path / ('model' + suffix)}")
    if path.suffix != suffix:
        raise InputError(f"{path} was given as the file to write; its name must end in {suffix}")
    if path.exists() and path.stat().st_size > 0:
        raise InputError(f"{path} is there already and not empty, and nothing is overwritten: give another path")


def sidecar_of(path: Path) -> Path:
    """Return the path of the JSON file that goes with a checkpoint."""
    return path.with_name(path.name + ".json")


def check_free_checkpoint(path: Path) -> None:
    """Check that a checkpoint and its JSON file can be written at `path`, as `check_free_file` does."""
    check_free_file(path, ".safetensors")
    check_free_file(sidecar_of(path), ".json")
