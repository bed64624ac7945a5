"""Visitors who come, add classes, have pictures labeled, take the answers home and leave, as fast as they can."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image

COLORS = {"red": (200, 40, 40), "blue": (40, 60, 200)}
WARM_UP_VISITS = 8
GROWTH = 300 << 20
"""Bytes that the server may grow by after its first visits, however long it runs."""


class Visitor:
    """One visit: a session of its own, spoken to as the page does."""

    def __init__(self, address: str, seed: int) -> None:
        self.http = httpx.Client(base_url=address, timeout=60)
        self.session, self.random = uuid.uuid4().hex[:12], np.random.default_rng(seed)
        page = self.http.get("/")
        found = re.search(r"window\.gradio_config = (\{.*?\});</script>", page.text, re.DOTALL)
        if found is None:
            raise AssertionError(f"the page did not come ({page.status_code})")
        self.config = json.loads(found[1])

    def visit(self) -> None:
        """From the first class to the csv file, which must hold the right answers."""
        with closing(self.http):
            for color in COLORS:
                self._do("teach", name=color, files=self._uploaded(color, 3))
            self._do("label", files=self._uploaded("red", 3) + self._uploaded("blue", 2))
            address = self._do("download", what="answers")["download"]
            rows = self.http.get(address).text.splitlines()
            labels = [row.split(",")[1] for row in rows[1:]]
            if labels != ["red"] * 3 + ["blue"] * 2:
                raise AssertionError(f"five pictures, red and blue, were labeled {labels}")

    def _uploaded(self, color: str, count: int) -> list[str]:
        files = []
        for _ in range(count):
            pixels = np.array(COLORS[color]) + self.random.integers(-40, 40, (60, 80, 3))
            stream = io.BytesIO()
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(stream, "PNG")
            files.append(("files", (f"{self.random.integers(1 << 40)}.png", stream.getvalue())))
        answer = self.http.post("/gradio_api/upload", files=files)
        answer.raise_for_status()
        return list(answer.json())

    def _do(self, do: str, **fields: Any) -> dict[str, Any]:
        (block,) = (part["id"] for part in self.config["components"] if part["props"].get("elem_id") == "wire")
        number = next(part["id"] for part in self.config["dependencies"] if [block, "click"] in part["targets"])
        action = {"do": do, **fields}
        body = {"session_hash": self.session, "fn_index": number, "data": [None], "event_data": action}
        self.http.post("/gradio_api/queue/join", json=body).raise_for_status()
        with self.http.stream("GET", "/gradio_api/queue/data", params={"session_hash": self.session}) as stream:
            for line in stream.iter_lines():
                message = json.loads(line.removeprefix("data: ")) if line else {}
                if message.get("msg") == "process_completed":
                    if not message["success"]:
                        raise AssertionError(f"{do} failed: {message['output']}")
                    return dict(json.loads(message["output"]["data"][1]))
        raise AssertionError(f"{do} did not end")


@contextmanager
def server(checkpoint: Path) -> Iterator[tuple[str, int]]:
    """`cplsr serve` in a process of its own: its address and its number."""
    words = ["serve", "--backbone", str(checkpoint), "--heads", "2", "--device", "cpu", "--port", "0", "--no-open"]
    command = [sys.executable, "-m", "cplsr", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[0], process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


def memory_of(pid: int) -> int:
    """Bytes that a process holds in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def load_page(checkpoint: Path, seconds: float, seed: int, visitors: int = 3) -> None:
    """Visits by several at once for so long; raises at the first answer that is wrong and where memory grows."""
    lock, visits, failures = threading.Lock(), 0, list[str]()
    with server(checkpoint) as (address, pid):
        end = time.monotonic() + seconds

        def come_again(number: int) -> None:
            nonlocal visits
            while not failures and (time.monotonic() < end or visits < 2 * WARM_UP_VISITS):
                try:
                    Visitor(address, seed + 1000 * visits + number).visit()
                except Exception as error:
                    failures.append(f"{type(error).__name__}: {error}")
                with lock:
                    visits += 1

        threads = [threading.Thread(target=come_again, args=(number,)) for number in range(visitors)]
        for thread in threads:
            thread.start()
        at_first = largest = 0
        while any(thread.is_alive() for thread in threads):
            largest = max(largest, memory_of(pid))
            at_first = at_first if visits >= WARM_UP_VISITS else largest
            time.sleep(0.2)
        if failures:
            raise AssertionError(f"after {visits} visits: {failures[0]}")
        told = f"{at_first >> 20} MB after the first visits, at most {largest >> 20} MB"
        if largest - at_first > GROWTH:
            raise AssertionError(f"the server grew in {visits} visits: {told}")
        print(f"page: {visits} visits in {seconds:.0f} s by {visitors} at once; {told}", flush=True)
