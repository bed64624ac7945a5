"""Serving the page: on this computer unless told otherwise, from a folder of its own that goes when the server does."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from cplsr.app.session import Shared
from cplsr.errors import InputError

HERE = Path(__file__).parent
OWN_NAMES = ("127.0.0.1", "localhost", "::1")
"""What this computer is called by itself alone."""
GRACE_SECONDS = 1
"""Open pages keep a connection that never ends by itself; a server that is told to stop waits for them so long."""
PREFIX = "cplsr-serve-"
NEW_SECONDS = 60


def listen(host: str, port: int) -> socket.socket:
    """Take the address, so that a wrong one is known before anything slow is done; port 0 means any free one."""
    if not 0 <= port <= 65535:
        raise InputError(f"--port {port} is no port: give a number from 0 (any free one) to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise InputError(
            f"--host {host!r} is no address of this computer: give 127.0.0.1, or 0.0.0.0 for all"
        ) from error
    taken = socket.socket(family, kind, protocol)
    if os.name == "posix":  # elsewhere it would let two servers share the port
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind(address)
        taken.listen()
    except OSError as error:
        taken.close()
        raise InputError(f"port {port} of {host} cannot be used ({error.strerror}): give another --port") from error
    return taken


def page_address(taken: socket.socket) -> str:
    """Say what to type into a browser on this computer."""
    host, port = taken.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "localhost"
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def run(shared: Shared, taken: socket.socket, ready: Callable[[], None], hosts: Sequence[str] = ()) -> None:
    """Serve the page on the socket that `listen` took, until interrupted; the rest is as for `make_server`."""
    sweep()
    with private_folder() as folder:
        server = make_server(shared, folder, ready, hosts)
        try:
            server.run(sockets=[taken])
        except KeyboardInterrupt:  # raised again by the server after it has closed everything
            return


def make_server(shared: Shared, folder: Path, ready: Callable[[], None], hosts: Sequence[str] = ()) -> Any:
    """Make the web server, ready to run on a socket.

    folder: where gradio keeps its files (see `private_folder`). ready: called once the page can be opened.
    hosts: other names by which the page may be opened.
    """
    import gradio as gr
    import uvicorn
    from fastapi import FastAPI

    from cplsr.app.gate import Gate
    from cplsr.app.page import build_page, theme

    downloads = folder / "downloads"
    shared = replace(shared, folder=folder / "pictures")
    blocks = build_page(shared, downloads)
    blocks.has_launched = True  # else gradio, which is mounted here and never launched, skips its own check of paths
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    gr.mount_gradio_app(
        app,
        blocks,
        path="/",
        favicon_path=str(HERE / "favicon.png"),
        max_file_size=shared.limits.file_bytes,
        theme=theme(),
        css_paths=HERE / "page.css",
        footer_links=[],
        run_history=False,
        ssr_mode=False,
        pwa=False,
        mcp_server=False,
        enable_monitoring=False,
        show_error=True,
    )

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            if self.started:
                ready()

    # Gradio reports failures itself; uvicorn would only complain about pages that are open when it stops.
    gate = Gate(app, blocks, folder, downloads, shared.limits, hosts)
    return Server(uvicorn.Config(gate, log_level="critical", timeout_graceful_shutdown=GRACE_SECONDS))


def sweep() -> None:
    """Remove folders that servers of this user left behind when they were killed; a living one holds its folder."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or time.time() - status.st_mtime < NEW_SECONDS:
                continue  # a server that is just starting does not hold its folder yet
            with _held(folder) as held:
                if held and status.st_uid == os.getuid():
                    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Whether the folder could be locked; the lock ends with the block, or with the process, however that ends."""
    if os.name != "posix":
        yield False
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        yield False
    else:
        yield True
    finally:
        os.close(descriptor)


@contextmanager
def private_folder() -> Iterator[Path]:
    """Make a folder for uploads and downloads that only this user can read, and remove it in the end.

    Gradio is told of it, and not to send statistics, by environment variables.
    """
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name,
        _held(Path(name)),
    ):
        folder = Path(name).resolve()
        wanted = {"GRADIO_TEMP_DIR": str(folder), "GRADIO_ANALYTICS_ENABLED": "False"}
        before = {variable: os.environ.get(variable) for variable in wanted}
        os.environ.update(wanted)
        try:
            yield folder
        finally:
            for variable, value in before.items():
                if value is None:
                    os.environ.pop(variable, None)
                else:
                    os.environ[variable] = value
