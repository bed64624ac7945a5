from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cplsr.app.server import HERE, listen, page_address, private_folder, sweep
from cplsr.errors import InputError


def test_a_free_port_is_taken_and_named() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert page_address(taken) == f"http://127.0.0.1:{port}/"
        with pytest.raises(InputError, match=f"port {port} of 127.0.0.1 cannot be used"):
            listen("127.0.0.1", port)
    listen("127.0.0.1", port).close()


def test_all_addresses_are_opened_by_the_name_of_this_computer() -> None:
    with listen("0.0.0.0", 0) as taken:
        assert page_address(taken) == f"http://localhost:{taken.getsockname()[1]}/"


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_an_ipv6_address_is_put_in_brackets() -> None:
    try:
        taken = listen("::1", 0)
    except InputError:
        pytest.skip("this computer has no IPv6 loopback address")
    with taken:
        assert page_address(taken) == f"http://[::1]:{taken.getsockname()[1]}/"


@pytest.mark.parametrize(("host", "port", "words"), [("127.0.0.1", 70000, "no port"), ("not a host", 0, "--host")])
def test_a_place_that_cannot_be_is_a_sentence(host: str, port: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        listen(host, port)


def test_the_private_folder_is_for_this_user_only_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRADIO_TEMP_DIR", raising=False)
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "True")
    with private_folder() as folder:
        assert os.environ["GRADIO_TEMP_DIR"] == str(folder)
        assert os.environ["GRADIO_ANALYTICS_ENABLED"] == "False"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "upload.png").write_bytes(b"x")
    assert not folder.exists()
    assert "GRADIO_TEMP_DIR" not in os.environ
    assert os.environ["GRADIO_ANALYTICS_ENABLED"] == "True"


@pytest.mark.skipif(os.name != "posix", reason="folders are locked as on posix")
def test_folders_of_killed_servers_are_swept_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = tmp_path / "pictures"
    for folder in (kept, tmp_path / "cplsr-serve-stale", tmp_path / "cplsr-serve-starting"):
        folder.mkdir()
        (folder / "upload.png").write_bytes(b"x")
    (tmp_path / "cplsr-serve-link").symlink_to(kept)
    (tmp_path / "cplsr-serve-file").write_bytes(b"x")
    with private_folder() as living:
        for old in (tmp_path / "cplsr-serve-stale", living, kept):
            os.utime(old, (0, 0))
        sweep()
        left = {path.name for path in tmp_path.iterdir()}
    assert left == {"pictures", "cplsr-serve-starting", "cplsr-serve-link", "cplsr-serve-file", living.name}
    assert (kept / "upload.png").exists()


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as on posix")
def test_a_killed_process_lets_go_of_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    hold = "from cplsr.app.server import private_folder\nwith private_folder() as f: print(f, flush=True); input()"
    command = [sys.executable, "-c", hold]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        os.utime(folder, (0, 0))
        sweep()
        assert folder.exists()
        process.kill()
        process.wait()
    sweep()
    assert not folder.exists()


def test_the_page_brings_its_own_favicon_and_names_no_other_host() -> None:
    assert (HERE / "favicon.png").read_bytes().startswith(b"\x89PNG")
    for file in Path(HERE).glob("page.*"):
        source = file.read_text(encoding="utf-8")
        assert "http://" not in source
        assert "https://" not in source
