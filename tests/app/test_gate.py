"""Forged requests to a running server: what the page never sends is refused, and nothing is opened on the way."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from oracles.random_vit import random_checkpoint
from page_driver import serving
from safetensors.torch import save_file

pytest.importorskip("gradio", reason="the page needs gradio")

import httpx
from PIL import Image

from cplsr.app import gate
from cplsr.app.gate import Quota, RefusedError, host_name
from cplsr.app.session import Shared
from cplsr.app.uploads import Limits
from cplsr.backbones.backbone import Backbone
from cplsr.backbones.load import load_backbone

ALLOWED_NAME = "nas.local"
META = {"_type": "gradio.FileData"}
SESSION = "forged0session"


class Client:
    """A visitor without a browser, who can send whatever there is to send."""

    def __init__(self, address: str) -> None:
        self.http = httpx.Client(base_url=address, timeout=30)
        self.session = uuid4().hex
        page = self.http.get("/")
        self.cookie = page.headers["set-cookie"]
        found = re.search(r"window\.gradio_config = (\{.*?\});</script>", page.text, re.DOTALL)
        assert found is not None
        self.config = json.loads(found[1])

    def event(self) -> int:
        """Number of the one function behind the page."""
        (block,) = (c["id"] for c in self.config["components"] if c["props"].get("elem_id") == "wire")
        return next(d["id"] for d in self.config["dependencies"] if [block, "click"] in d["targets"])

    def upload(self, file: Path) -> str:
        answer = self.http.post("/gradio_api/upload", files={"files": (file.name, file.read_bytes())})
        assert answer.status_code == 200
        return answer.json()[0]

    def join(self, **body: Any) -> httpx.Response:
        whole = {"session_hash": self.session, "fn_index": self.event(), "data": [None], **body}
        return self.http.post("/gradio_api/queue/join", json=whole)

    def act(self, do: str, **fields: Any) -> httpx.Response:
        return self.join(event_data={"do": do, **fields})

    def add(self, files: Any, name: str = "red") -> httpx.Response:
        return self.act("teach", name=name, files=files)

    def told(self) -> dict[str, Any]:
        """What the page is told after the event that was accepted last."""
        return json.loads(self.outcome()["output"]["data"][1])

    def outcome(self) -> dict[str, Any]:
        """What came of the event that was accepted last."""
        with self.http.stream("GET", "/gradio_api/queue/data", params={"session_hash": self.session}) as stream:
            for line in stream.iter_lines():
                message = json.loads(line.removeprefix("data: ")) if line else {}
                if message.get("msg") == "process_completed":
                    return message
        raise AssertionError("the event did not end")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    checkpoint = tmp_path_factory.mktemp("weights") / "vit.safetensors"
    save_file(random_checkpoint(dim=64, layers=2, patch=8, image=32), checkpoint)
    with serving(Shared(load_backbone(checkpoint, heads=2)), [ALLOWED_NAME]) as place:
        yield place


@pytest.fixture
def client(address: str) -> Client:
    return Client(address)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    Image.new("RGB", (40, 40), "red").save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


def stored() -> set[str]:
    """Everything in the server's own folder."""
    return {str(path) for path in Path(os.environ["GRADIO_TEMP_DIR"]).rglob("*")}


def named(path: str, **more: Any) -> dict[str, Any]:
    return {"path": path, "meta": META, **more}


def test_an_upload_of_ones_own_is_used_and_what_else_is_said_about_it_is_not(client: Client, photo: Path) -> None:
    path = client.upload(photo)
    before = stored()
    lies = {"url": "http://127.0.0.1:1/other.png", "orig_name": "../../x", "is_stream": True, "size": -1}
    assert client.act("teach", name="red", files=[path], **lies).status_code == 200
    assert "photo.png" in client.told()["parts"]["classes"]
    new = {Path(place) for place in stored() - before}
    assert {place.parent.name for place in new if place.is_file()} == {"pictures"}
    assert not Path(path).exists()  # it was moved there


def test_files_that_are_not_the_visitors_own_are_refused_unopened(
    client: Client, address: str, photo: Path, tmp_path: Path
) -> None:
    own = Path(client.upload(photo))
    link, pipe = own.parent / "link.png", own.parent / "pipe.png"
    link.symlink_to(photo)
    os.mkfifo(pipe)
    (own.parent / "folder").symlink_to(tmp_path)
    paths = {
        "elsewhere": str(photo),
        "absent": str(tmp_path / "absent.png"),
        "another session's": Client(address).upload(photo),
        "link": str(link),
        "through a linked folder": str(own.parent / "folder" / "photo.png"),
        "pipe": str(pipe),
        "endless": "/dev/zero",
        "parent": f"{own.parent}/../../../../../..{photo}",
        "own by way of its parent": f"{own.parent}/../{own.parent.name}/{own.name}",
        "written oddly": f"{own.parent}//{own.name}",
        "relative": own.name,
        "folder": str(own.parent),
        "address": "http://127.0.0.1:1/photo.png",
        "file address": f"file://{own}",
        "zero byte": f"{own}\0.png",
        "empty": "",
    }
    before = stored()
    statuses = {case: client.add([path]).status_code for case, path in paths.items()}
    assert statuses == dict.fromkeys(paths, 403)
    assert client.add([str(own), str(photo)]).status_code == 403
    assert client.act("label", files=[str(photo)]).status_code == 403
    for odd in ([[str(photo)]], {"a": str(photo)}, named(str(photo)), str(photo), [named(str(photo))], [1]):
        assert client.add(odd).status_code == 400
    in_state = client.join(data=[named(str(photo))], event_data={"do": "undo"})
    assert (client.add([], named(str(photo))).status_code, in_state.status_code) == (400, 400)  # type: ignore[arg-type]
    assert stored() == before
    assert client.add([str(own)]).status_code == 200  # the server is as well as before
    assert "photo.png" in client.told()["parts"]["classes"]


def test_without_the_cookie_there_are_no_files(client: Client, address: str, photo: Path) -> None:
    assert "HttpOnly" in client.cookie
    assert "SameSite=Strict" in client.cookie
    path = client.upload(photo)
    for cookie in ("", f"{gate.COOKIE}=../..", f"{gate.COOKIE}=nobody"):
        headers = {"cookie": cookie}
        teach = {"do": "teach", "name": "red", "files": [path]}
        body = {"fn_index": client.event(), "session_hash": SESSION, "data": [None], "event_data": teach}
        assert httpx.post(f"{address}gradio_api/queue/join", json=body, headers=headers).status_code == 403
        upload = httpx.post(f"{address}gradio_api/upload", files={"files": ("a.png", b"x")}, headers=headers)
        assert (upload.status_code, "cookies" in upload.text) == (403, True)


def test_no_files_but_downloads_are_given_back(client: Client, photo: Path) -> None:
    own = client.upload(photo)
    assert client.add([own]).status_code == 200
    client.outcome()
    assert client.act("download", what="model").status_code == 200
    address = client.told()["download"]
    given = client.http.get(address)
    assert (given.status_code, given.content[:2]) == (200, b"PK")
    place = Path(os.environ["GRADIO_TEMP_DIR"]) / "downloads" / address.split("/")[2]
    secret = place.parent.parent / "secret.txt"
    secret.write_text("not for visitors")
    (place / "link.zip").symlink_to(secret)
    for name in ("link.zip", "other.zip", "../../secret.txt", "..%2f..%2fsecret.txt", "%2e%2e/secret.txt", ""):
        assert client.http.get(f"/download/{place.name}/{name}").status_code == 404
    for path in (own, photo, secret, "/dev/zero", "http://127.0.0.1:1/"):
        assert client.http.get(f"/gradio_api/file={path}").status_code == 404
    assert client.act("download", what="labeled").status_code == 200
    assert client.http.get(client.told()["download"]).status_code == 200
    assert client.http.get(address).status_code == 404  # the next one replaces it


def test_a_session_is_there_again_for_whoever_has_its_key(client: Client, address: str, photo: Path) -> None:
    assert client.act("arrive").status_code == 200
    key = client.told()["key"]
    assert client.add([client.upload(photo)]).status_code == 200
    client.outcome()

    def found(wanted: str) -> tuple[bool, list[str]]:
        visitor = Client(address)
        assert visitor.act("arrive", key=wanted).status_code == 200
        told = visitor.told()
        return told["key"] == key, told["classes"]

    assert found(key) == (True, ["red"])
    assert found(key[::-1]) == (False, [])
    assert found(key) == (True, ["red"])


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "path",
    [
        *("openapi.json", "docs", "redoc", "config", "monitoring", "login", "gradio_api", "svelte/x"),
        *("gradio_api/openapi.json", "gradio_api/info", "gradio_api/proxy=http://127.0.0.1:1/", "gradio_api/run/_add"),
        *("gradio_api/api/_add", "gradio_api/call/_add", "gradio_api/component_server", "gradio_api/file/etc/passwd"),
        *("gradio_api/queue/join/", "gradio_api/cancel", "gradio_api/stream/x", "gradio_api/queue/status", "//"),
        *("gradio_api/deep_link", "gradio_api/process_recording", "gradio_api/token", "gradio_api/startup-events"),
    ],
)
def test_what_the_page_does_not_use_is_closed(address: str, method: str, path: str) -> None:
    assert httpx.request(method, address + path, json={}).status_code in (404, 405)


@pytest.mark.parametrize(
    ("host", "welcome"),
    [
        *(("127.0.0.1:7860", True), ("localhost", True), ("LOCALHOST:1", True), ("[::1]:80", True)),
        *((ALLOWED_NAME, True), (f"{ALLOWED_NAME}:443", True)),
        *(("evil.example", False), ("127.0.0.1.evil.example", False), ("evil.example:7860", False)),
        *(("localhost@evil.example", False), ("", False), ("0.0.0.0", False), ("[::1", False)),
    ],
)
def test_only_names_of_this_server_are_answered(address: str, host: str, welcome: bool) -> None:
    answer = httpx.get(address, headers={"host": host})
    assert answer.status_code == (200 if welcome else 403)
    assert welcome or "--allow-host" in answer.text


@pytest.mark.parametrize(
    ("origin", "welcome"),
    [
        *(("http://{host}", True), ("https://{host}", True), (f"https://{ALLOWED_NAME}", True)),
        *(("http://evil.example", False), ("null", False), ("http://127.0.0.1:1", False), ("http://localhost", False)),
        *(("http://{host}.evil.example", False), ("", False)),
    ],
)
def test_pages_of_other_sites_are_not_answered(client: Client, origin: str, welcome: bool) -> None:
    place = client.http.base_url.netloc.decode()
    clear = {"do": "clear_answers"}
    body = {"fn_index": client.event(), "session_hash": SESSION, "data": [None], "event_data": clear}
    headers = {"origin": origin.format(host=place)}
    answer = client.http.post("/gradio_api/queue/join", json=body, headers=headers)
    assert answer.status_code == (200 if welcome else 403)
    assert client.http.get("/", headers=headers).status_code == (200 if welcome else 403)
    preflight = client.http.options(
        "/gradio_api/queue/join", headers={**headers, "access-control-request-method": "POST"}
    )
    assert "access-control-allow-origin" not in preflight.headers


def test_odd_events_are_answered_with_a_sentence(client: Client) -> None:
    undo = {"do": "undo"}
    actions = (
        *([1, 2], "x", 3, {}, None, {"do": "format"}, {"do": 1}, {"do": "explain"}, {"do": "explain", "answer": "x"}),
        *({"do": "explain", "answer": "-1"}, {"do": "explain", "answer": None}, {"do": "remove_class", "name": 5}),
        *({"do": "remove_class", "name": "x" * 301}, {"do": "arrange", "threshold": 2}, {"do": "arrange", "sort": "x"}),
        *({"do": "arrive", "key": "../.."}, {"do": "speak", "language": "xx"}, {"do": "download", "what": "/etc"}),
        *({"do": "label", "files": ["x"] * 1001}, {"do": "label", "refused": [{"name": "x", "reason": "<b>"}]}),
    )
    odd: list[Any] = [{"event_data": told} for told in actions]
    odd += [{"fn_index": number, "event_data": undo} for number in (-1, 1, 999, None, "1", 1.5, 2**70)]
    odd += [{"data": data, "event_data": undo} for data in ([], [None] * 4, None, {}, [5], ["x"])]
    odd += [{"event_data": undo, "session_hash": name} for name in (None, "", "A/..", "a" * 99)]
    assert [client.join(**body).status_code for body in odd] == [400] * len(odd)
    nested = b"[" * 200_000
    for body in (b"", b"{", b"null", b"\xff", nested, b'{"data":' + nested):
        assert client.http.post("/gradio_api/queue/join", content=body).status_code == 400
    assert client.http.post("/gradio_api/queue/join", content=b" " * (gate.EVENT_BYTES + 1)).status_code == 413
    assert client.act("explain", answer="7").status_code == 200
    assert "not in the list" in client.told()["messages"][0]


def test_odd_uploads_leave_nothing_behind(client: Client, photo: Path) -> None:
    before = {path for path in stored() if Path(path).is_file()}
    boundary = {"content-type": "multipart/form-data; boundary=x"}
    part = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'
    for headers, content in (
        ({"content-type": "application/json"}, b"{}"),
        ({"content-type": "multipart/form-data"}, part),
        (boundary, b'--x\r\nContent-Disposition: form-data; name="files"\r\n\r\nno file\r\n--x--\r\n'),
        (boundary, b"--x\r\nContent-Disposition: form-data\r\n\r\n\r\n--x--\r\n"),
        (boundary, part.replace(b"a.png", b"a" * 9000) + b"abc\r\n--x--\r\n"),
    ):
        for query in ("", "?upload_id=1"):
            answer = client.http.post(f"/gradio_api/upload{query}", headers=headers, content=content)
            assert answer.status_code in (400, 413), content
    large = client.http.post("/gradio_api/upload", files={"files": ("a.png", bytes(20_000_001))})
    assert (large.status_code, "maximum allowed size" in large.text) == (413, True)
    assert {path for path in stored() if Path(path).is_file()} == before
    outside = client.http.post("/gradio_api/upload", files={"files": ("../../../x.png", photo.read_bytes())})
    assert Path(outside.json()[0]).name == "x.png"
    assert Path(os.environ["GRADIO_TEMP_DIR"]) / "uploads" in Path(outside.json()[0]).parents


def test_uploads_of_an_hour_are_limited_for_each_and_for_all() -> None:
    quota = Quota(Limits(hourly_bytes=100, hourly_bytes_of_all=250))
    quota.take("a", 60, now=0.0)
    quota.take("a", 40, now=1800.0)
    with pytest.raises(RefusedError, match="within an hour"):
        quota.take("a", 1, now=1800.0)
    quota.take("b", 100, now=1800.0)
    with pytest.raises(RefusedError, match="all visitors"):
        quota.take("c", 50, now=1800.0)
    quota.take("a", 59, now=3700.0)  # what came first does not count any more
    with pytest.raises(RefusedError, match="within an hour"):
        quota.take("a", 1, now=3700.0)
    quota.take("c", 100, now=9000.0)
    assert quota.held == {"c": 100}


def test_an_upload_beyond_the_limit_is_refused_and_removed(backbone: Backbone) -> None:
    with serving(Shared(backbone, limits=Limits(hourly_bytes=300_000))) as place:
        client = Client(place)
        assert client.http.post("/gradio_api/upload", files={"files": ("a.png", bytes(200_000))}).status_code == 200
        refused = client.http.post("/gradio_api/upload", files={"files": ("b.png", bytes(200_000))})
        assert (refused.status_code, "within an hour" in refused.text) == (413, True)
        assert [Path(path).name for path in stored() if Path(path).is_file()] == ["a.png"]
        many = Client(place)
        assert many.upload(Path(__file__)).endswith(".py")
        empty = [("files", (f"{number}.png", b"")) for number in range(80)]
        assert many.http.post("/gradio_api/upload", files=empty).status_code == 413


@pytest.mark.parametrize(("place", "name"), [("A.b:1", "a.b"), ("[::1]:7", "::1"), ("", ""), ("[::1", ""), ("a", "a")])
def test_host_names(place: str, name: str) -> None:
    assert host_name(place) == name
