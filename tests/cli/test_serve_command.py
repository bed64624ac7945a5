from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cplsr.app.session import new_session
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.cli import main, serve
from cplsr.cli.serve import Serve, has_screen, load_shared


def test_a_port_in_use_is_a_sentence_before_anything_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["serve", "--port", str(port), "--backbone", "no-such-backbone"]) == 2
    said = capsys.readouterr().err
    assert f"port {port}" in said
    assert "--port" in said
    assert said.count("\n") == 1


def test_without_gradio_the_pip_command_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serve, "installed_version", lambda name: None)
    assert main(["serve"]) == 2
    assert "pip install 'cplsr[app]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", [["--adapter", "frozen"], ["--image-size", "32"], ["--pooling", "cls"], ["--precision", "bf16"]]
)
def test_a_model_has_its_own_settings(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--model", "model", *option]) == 2
    assert option[0] in capsys.readouterr().err


def test_bound_elsewhere_there_is_a_warning(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["serve", "--host", "0.0.0.0", "--port", "0", "--backbone", str(tmp_path / "none")]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert "without a password" in first
    assert "none" in second


def test_a_saved_classifier_is_the_start(checkpoint_file: Path, tmp_path: Path) -> None:
    pictures = [Image.fromarray(np.full((40, 40, 3), shade, dtype=np.uint8)) for shade in (10, 20, 200, 210)]
    saved = FewShotClassifier(str(checkpoint_file)).fit(pictures, ["dark", "dark", "light", "light"])
    saved.save(tmp_path / "model")
    shared = load_shared(Serve(model=tmp_path / "model"))
    assert new_session(shared).classes == {"dark": 2, "light": 2}
    frozen = load_shared(Serve(backbone=str(checkpoint_file), adapter="frozen"))
    assert new_session(frozen).classes == {}
    assert frozen.backbone.adapter is None


@pytest.mark.parametrize("name", ["http://nas.local", "nas.local:80", "", "a b"])
def test_another_name_is_given_alone(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--allow-host", "nas.local", "--allow-host", name]) == 2
    assert f"--allow-host {name!r} is no name" in capsys.readouterr().err


def test_no_browser_is_started_without_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert not has_screen()
    monkeypatch.setenv("DISPLAY", ":0")
    assert has_screen()


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as on posix")
def test_it_prints_the_address_serves_and_stops_on_ctrl_c(checkpoint_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("gradio")
    (tmp_path / "temporary").mkdir()
    command = [sys.executable, "-m", "cplsr", "serve", "--backbone", str(checkpoint_file), "--port", "0", "--no-open"]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary"), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[0]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address) as answer:
            assert "Sort pictures by example" in answer.read().decode()
        with urllib.request.urlopen(f"{address}favicon.ico") as answer:
            assert answer.read().startswith(b"\x89PNG")
        assert list((tmp_path / "temporary").glob("cplsr-serve-*"))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (0, "stopped\n", "")
    assert not list((tmp_path / "temporary").glob("cplsr-serve-*"))
