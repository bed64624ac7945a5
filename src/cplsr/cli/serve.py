"""`cplsr serve`: the classifier in the browser."""

from __future__ import annotations

import os
import re
import signal
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

import cplsr
from cplsr.cli.classify import AUTO, ClassifierBackbone, check_settled
from cplsr.cli.options import parse
from cplsr.declared import between
from cplsr.environment import installed_version
from cplsr.errors import InputError

if TYPE_CHECKING:
    from cplsr.app.session import Shared


@dataclass(frozen=True, kw_only=True)
class Serve(ClassifierBackbone):
    """Add classes, label pictures and correct answers in a browser, on this computer; nothing is sent elsewhere."""

    model: Path | None = None
    """Start from a classifier saved by `cplsr classify --save`, or downloaded from the page and unzipped."""
    port: Annotated[int, between(0, 65_535)] = 7860
    """Port; 0 for any free one."""
    host: str = "127.0.0.1"
    """Address to listen on. The default can be reached from this computer only; 0.0.0.0 from the whole network."""
    allow_host: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Another name by which the page may be opened, for example nas.local; can be given several times."""
    open: bool = True
    """Open the page in a browser, where there is a screen."""


def main(arguments: list[str]) -> int:
    """Parse the options, take the port, load the backbone, serve until Ctrl-C."""
    options = parse(Serve, "serve", arguments)
    check_request(options)
    from cplsr.app.server import OWN_NAMES, listen, page_address, run

    with listen(options.host, options.port) as taken:
        if options.host not in OWN_NAMES:
            warnings.warn(
                f"the page can be reached by everybody who can reach {options.host}, without a password and without "
                "encryption: leave out --host to keep it to this computer",
                stacklevel=2,
            )
        shared = load_shared(options)
        address = page_address(taken)

        def ready() -> None:
            print(f"{address}  (Ctrl-C stops it)", flush=True)
            if options.open and has_screen():
                import webbrowser

                webbrowser.open(address)

        # A polite end from outside is treated like Ctrl-C, so that uploads are removed then, too.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        run(shared, taken, ready, options.allow_host)
    print("stopped")
    return 0


def check_request(options: Serve) -> None:
    """Raise `InputError` before anything is loaded, where gradio is missing or options do not go together."""
    if installed_version("gradio") is None:
        raise InputError("the web page needs gradio, which is not installed: pip install 'cplsr[app]'")
    if options.model is not None:
        check_settled(options)
    for name in options.allow_host:
        if not re.fullmatch(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:]+", name):
            raise InputError(f"--allow-host {name!r} is no name: give it without http:// and without a port")


def load_shared(options: Serve) -> Shared:
    """Load the saved classifier with its backbone, or else the backbone with its adapter."""
    from cplsr.app.session import Shared

    if options.model is not None:
        given = None if options.backbone == AUTO else options.backbone
        start = cplsr.FewShotClassifier.load(options.model, backbone=given, device=options.device, workers=0)
        return Shared(start.backbone_, start)
    return Shared(options.load())


def has_screen() -> bool:
    """Whether a browser can be opened where the user sees it; a server has none, and must not start a text browser."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
