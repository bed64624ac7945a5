"""`cplsr info` tells what is so."""

import json

import torch

from cplsr.cli import main


def facts(capsys) -> dict[str, str]:
    assert main(["info", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_it_tells_versions_device_caches_and_network(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CPLSR_CACHE", str(tmp_path / "elsewhere"))
    told = facts(capsys)
    assert told["torch"] == torch.__version__
    assert told["device"] in ("cpu", "cuda", "mps")
    assert told["cache"] == str(tmp_path / "elsewhere")
    assert told["downloads"].startswith("off")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    assert facts(capsys)["downloads"] == "allowed"


def test_a_missing_extra_says_how_to_get_it(capsys, monkeypatch):
    import cplsr.environment

    monkeypatch.setattr(cplsr.environment, "EXTRAS", {"app": ("no-such-distribution",)})
    assert facts(capsys)["extra app"] == "not installed (pip install 'cplsr[app]')"


def test_the_plain_text_has_a_line_for_each(capsys):
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    assert "precision" in text
    assert "hub cache" in text
