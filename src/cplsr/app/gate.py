"""What stands in front of gradio: who may ask, for what, and with which files.

Gradio opens every path that a request names. So a request reaches it only if it comes from this page under a name of
this server, asks for something that the page uses, and names no files but those that the same visitor has uploaded;
an event is taken apart and put together again, so that nothing else can be in it. Whatever does not fit is answered
with a sentence and a status from 400 to 499.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, final
from urllib.parse import urlsplit
from uuid import uuid4

import gradio as gr
import msgspec
from gradio.route_utils import upload_fn
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cplsr.app.actions import Uploads
from cplsr.app.page import understood
from cplsr.app.server import OWN_NAMES
from cplsr.app.uploads import Limits

JOIN, UPLOAD = "/gradio_api/queue/join", "/gradio_api/upload"
DOWNLOAD = re.compile(r"/download/([0-9a-f]{32})/([a-z-]+\.[a-z]+)")
READ = frozenset({"/", "/favicon.ico", "/manifest.json", "/theme.css", "/gradio_api/queue/data", "/gradio_api/app_id"})
READ_BELOW = ("/assets/", "/static/", "/pwa_icon/", "/gradio_api/heartbeat/")
"""With `READ`, uploads, events and downloads, everything that the page asks for; the rest of gradio is closed."""
COOKIE = "cplsr-visitor"
HEADERS = (
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
)
EVENT_BYTES = 2_000_000
FILE_BYTES = 4096
"""What a file takes at least, however short it is."""


class RefusedError(HTTPException):
    """A request that goes no further."""


@final
@dataclass(frozen=True)
class Event:
    """What the page sends when something happens on it; `event_data` is one of the actions."""

    fn_index: int
    session_hash: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-z]{1,32}$")]
    data: tuple[None]
    event_data: Any
    trigger_id: int | None = None


@final
class Quota:
    """How many bytes have come from each visitor, and from all, within the last hour."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.held: Counter[str] = Counter()
        self.minutes: deque[tuple[int, Counter[str]]] = deque()

    def take(self, visitor: str, size: int, now: float) -> None:
        """Count what has arrived; more than allowed is refused."""
        minute = int(now // 60)
        while self.minutes and self.minutes[0][0] < minute - 60:
            self.held -= self.minutes.popleft()[1]  # forgets those who have nothing left
        if not self.minutes or self.minutes[-1][0] != minute:
            self.minutes.append((minute, Counter()))
        self.minutes[-1][1][visitor] += size
        self.held[visitor] += size
        if self.held[visitor] > self.limits.hourly_bytes:
            raise RefusedError(413, f"more than {self.limits.hourly_bytes / 1e6:,.0f} MB within an hour: wait a while")
        if self.held.total() > self.limits.hourly_bytes_of_all:
            raise RefusedError(413, "all visitors together have uploaded as much as fits here: wait a while")


@final
class Gate:
    """The application that the server runs: the checks, and gradio behind them.

    app: gradio's. folder: private to this server, resolved; each visitor's uploads are in a folder of their own in it.
    downloads: where the page writes files to take home, at addresses that cannot be guessed.
    """

    def __init__(
        self, app: ASGIApp, blocks: gr.Blocks, folder: Path, downloads: Path, limits: Limits, hosts: Collection[str]
    ) -> None:
        self.app, self.blocks, self.limits = app, blocks, limits
        self.uploads, self.downloads = folder / "uploads", downloads
        self.hosts = frozenset(name.lower() for name in hosts)
        self.quota = Quota(limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            else:
                await send({"type": "websocket.close"})
            return
        request, method, path = Request(scope, receive), scope["method"], scope["path"]
        visitor = _visitor(request)
        newcomer = uuid4().hex if visitor is None and path == "/" else None
        send = _with_headers(send, newcomer)
        answer: ASGIApp = self.app
        try:
            check_sender(request, self.hosts)
            if (method, path) == ("POST", UPLOAD):
                answer = JSONResponse(await self._receive_files(request, visitor))
            elif (method, path) == ("POST", JOIN):
                receive = _replay(self._checked_event(await _body(request), visitor), receive)
            elif method == "GET" and (file := self._download(path)) is not None:
                answer = FileResponse(file, filename=file.name)
            elif method not in ("GET", "HEAD"):
                raise RefusedError(405, f"{method} {path} is not part of this page")
            elif path not in READ and not path.startswith(READ_BELOW):
                raise RefusedError(404, f"{path} is not part of this page")
        except RefusedError as refusal:
            answer = PlainTextResponse(refusal.detail, refusal.status_code)
        await answer(scope, receive, send)

    def _checked_event(self, body: bytes, visitor: str | None) -> bytes:
        """The same event, made anew from what was understood of it."""
        try:
            event = msgspec.json.decode(body, type=Event)
            function = self.blocks.fns[event.fn_index]
            action = understood(event.event_data)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, KeyError) as error:
            raise RefusedError(400, f"that is no event of this page ({error})") from None
        if function.fn is None or not function.collects_event_data:
            raise RefusedError(400, "that event does not happen on this page")
        own = self._own_folder(visitor)
        if isinstance(action, Uploads) and not all(is_file_below(path, own) for path in action.files):
            raise RefusedError(403, "a file was named that is none of yours: drop it on the page again")
        return msgspec.json.encode(replace(event, event_data=action))

    def _download(self, path: str) -> Path | None:
        """The file at the address of a download, which cannot be guessed; `None` for other addresses."""
        found = DOWNLOAD.fullmatch(path)
        if found is None:
            return None
        file = self.downloads / found[1] / found[2]
        if not is_file_below(str(file), self.downloads):
            raise RefusedError(404, "that file is not here any more: download it again")
        return file

    async def _receive_files(self, request: Request, visitor: str | None) -> list[str]:
        """Store what is uploaded in a new folder of the visitor's own; all of it, or nothing."""
        if visitor is None:
            raise RefusedError(403, "this page needs cookies: allow them for this address and load it again")
        place = self._own_folder(visitor) / uuid4().hex
        place.mkdir(parents=True)
        counted = Request(request.scope, self._counting(request.receive, visitor))
        try:
            files, _, _ = await upload_fn(counted, place, self.limits.file_bytes, None, upload_progress=None)
            self.quota.take(visitor, FILE_BYTES * len(files), time.monotonic())
        except BaseException as error:
            shutil.rmtree(place, ignore_errors=True)
            if isinstance(error, RefusedError):
                raise
            if isinstance(error, MultiPartException):
                raise RefusedError(413 if "maximum allowed size" in error.message else 400, error.message) from None
            if isinstance(error, (HTTPException, ClientDisconnect, TypeError, ValueError, AttributeError, KeyError)):
                raise RefusedError(400, "that is no upload as this page makes it") from None
            if isinstance(error, OSError):
                raise RefusedError(507, f"the files could not be stored ({error.strerror})") from None
            raise
        self.blocks.upload_file_set.update(files)  # gradio removes them after a while
        return [str(file) for file in files]

    def _counting(self, receive: Receive, visitor: str) -> Receive:
        async def counted() -> Message:
            message = await receive()
            self.quota.take(visitor, len(message.get("body", b"")), time.monotonic())
            return message

        return counted

    def _own_folder(self, visitor: str | None) -> Path:
        return self.uploads / (visitor or "nobody")


def check_sender(request: Request, hosts: Collection[str]) -> None:
    """Refuse a request for another server's name, and one that another site's page makes.

    A name that resolves to this computer today may belong to anybody, who would then be able to read what the page
    shows; so the name must be the address that the connection came to, one of this computer's own, or in `hosts`.
    """
    asked = request.headers.getlist("host")
    known = {*OWN_NAMES, *hosts, (request.scope.get("server") or ("",))[0]}
    if len(asked) != 1 or host_name(asked[0]) not in known:
        raise RefusedError(
            403, f"this server is not called {', '.join(asked)!r}: if it should be, start it with --allow-host"
        )
    for origin in request.headers.getlist("origin"):
        place = origin.partition("://")[2]
        if place != asked[0] and host_name(place) not in hosts:
            raise RefusedError(403, f"requests from pages of {origin} are not answered")


def host_name(place: str) -> str:
    """The name in `name:port`, in lower case, an IPv6 address without its brackets; empty where there is none."""
    try:
        return (urlsplit(f"//{place}").hostname or "").lower()
    except ValueError:
        return ""


def is_file_below(path: str, folder: Path) -> bool:
    """Whether a path is that of a regular file in a folder: itself, and not by way of `..` or links.

    Nothing outside of the folder is looked at, and nothing is opened.
    """
    place = Path(path)
    if ".." in place.parts or "\0" in path or not place.is_relative_to(folder):
        return False
    try:
        return str(place) == path == str(place.resolve(strict=True)) and stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, RuntimeError):
        return False


def _visitor(request: Request) -> str | None:
    given = request.cookies.get(COOKIE, "")
    return given if re.fullmatch("[0-9a-f]{32}", given) else None


async def _body(request: Request) -> bytes:
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > EVENT_BYTES:
                raise RefusedError(413, f"an event has at most {EVENT_BYTES:,} bytes: drop fewer files at once")
    except ClientDisconnect:
        raise RefusedError(400, "the event did not arrive whole") from None
    return body


def _replay(body: bytes, receive: Receive) -> Receive:
    """A body that has been read already, and then whatever else comes."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return messages.pop() if messages else await receive()

    return replayed


def _with_headers(send: Send, newcomer: str | None) -> Send:
    """Add our headers to a response, and the cookie by which a newcomer is known from now on."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *HEADERS]
            if newcomer is not None:
                cookie = f"{COOKIE}={newcomer}; Path=/; HttpOnly; SameSite=Strict"
                message["headers"].append((b"set-cookie", cookie.encode()))
        await send(message)

    return sending
