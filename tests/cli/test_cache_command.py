"""`cplsr cache`, as it is called."""

import numpy as np
import pytest

from cplsr.cli.cache import main
from cplsr.evaluation.cache import EmbeddingCache, EmbeddingKey


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CPLSR_CACHE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return EmbeddingCache()


def fill(cache):
    key = EmbeddingKey("b", "f" * 40, 112, "cls", "none", "bf16", (0.5,) * 3, (0.5,) * 3, source="some/backbone")
    cache.write(key, [f"{i}" for i in range(1500)], np.zeros((1500, 4), dtype=np.float32))


def test_info_of_an_empty_cache(cache, capsys):
    assert main(["info"]) == 0
    assert capsys.readouterr().out.replace("\n", "") == f"embeddings in {cache.folder}: 0 bytes"


def test_info_lists_models(cache, capsys):
    fill(cache)

    assert main(["info"]) == 0

    printed = capsys.readouterr().out
    for word in ("some/backbone", "ffffffff", "112", "bf16", "1,500", "48.2 KB"):
        assert word in printed


def test_clear_removes_everything_and_says_how_much(cache, capsys):
    fill(cache)

    assert main(["clear"]) == 0

    assert capsys.readouterr().out == f"removed 48.2 KB of embeddings from {cache.folder}\n"
    assert cache.contents() == []


def test_anything_else_is_a_usage_error(cache, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["destroy"])

    assert stopped.value.code == 2


def test_what_training_keeps_is_listed_and_cleared_too(cache, tmp_path, capsys):
    for name, size in (("images", 2000), ("statistics", 50)):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "file").write_bytes(b"x" * size)

    assert main(["info"]) == 0
    told = capsys.readouterr().out
    assert f"decoded images in {tmp_path / 'images'}: 2.0 KB" in told
    assert f"class statistics in {tmp_path / 'statistics'}: 50 bytes" in told

    assert main(["clear"]) == 0
    assert f"removed 2.0 KB of decoded images from {tmp_path / 'images'}" in capsys.readouterr().out
    assert not (tmp_path / "images").exists()
    assert not (tmp_path / "statistics").exists()


def test_what_runs_models_in_browsers_is_listed_and_removed_too(cache, capsys):
    runtime = cache.folder.parent / "onnxruntime-web-1.2.3"
    runtime.mkdir(parents=True)
    (runtime / "ort.js").write_bytes(b"x" * 2000)
    assert main(["info"]) == 0
    assert "files of onnxruntime-web in" in capsys.readouterr().out
    assert main(["clear"]) == 0
    assert not runtime.exists()
