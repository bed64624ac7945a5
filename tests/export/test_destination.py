"""Nothing is overwritten, and what is refused is refused in a sentence."""

from pathlib import Path

import pytest

from cplsr.errors import InputError
from cplsr.export.destination import check_free_checkpoint, check_free_file, check_free_folder


def test_free_places_are_taken(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.onnx").touch()
    check_free_folder(tmp_path / "empty")
    check_free_folder(tmp_path / "new" / "folder")
    check_free_file(tmp_path / "empty.onnx", ".onnx")
    check_free_file(tmp_path / "new" / "x.onnx", ".onnx")
    check_free_checkpoint(tmp_path / "x.safetensors")


def test_taken_places_are_refused(tmp_path: Path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x.onnx").write_text("mine")
    (tmp_path / "x.safetensors.json").write_text("mine")
    for check, words in (
        (lambda: check_free_folder(tmp_path / "full"), "not empty"),
        (lambda: check_free_folder(tmp_path / "full" / "x.onnx"), "is a file"),
        (lambda: check_free_file(tmp_path / "full" / "x.onnx", ".onnx"), "not empty"),
        (lambda: check_free_file(tmp_path / "full", ".onnx"), r"is a folder.*model\.onnx"),
        (lambda: check_free_file(tmp_path / "x.pt", ".onnx"), r"must end in \.onnx"),
        (lambda: check_free_checkpoint(tmp_path / "x.safetensors"), r"x\.safetensors\.json"),
        (lambda: check_free_folder(tmp_path / "full" / "x.onnx" / "deeper"), "a file stands where a folder is wanted"),
    ):
        with pytest.raises(InputError, match=words):
            check()
