"""Many images to vectors on disk: two processes against one, memory, and a killed process, by both engines.

    python benchmarks/scale.py [--quick] [--json FILE]

20,000 images (240 with --quick) go through the embedded backbone by `cplsr embed`, a process of its own each time, as a
user would run it: local with 2 processes against 1, ray with 2 against 1. Rates are images/s from the first shard to
the last, so that starting Python, torch and ray is left out. In the last round one process that embeds is killed
(signal 9) in the middle of each run with two, and the files of all runs are compared bit for bit. Beside that stand
the processor time of an image in the bare backbone, on one thread, and of decoding it; and the peak memory of the whole
tree of processes for 200,000 images against 2,000 (2,000 against 200, by one process), which a list of the same small
files names.

The images are photos where `CPLSR_REAL_DATA` names a folder of them, else procedural pictures. On a machine that does
other things besides, wall-clock ratios say little: processor time per image is printed beside them.
"""

from __future__ import annotations

import hashlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import torch
from claims import Claim, arguments, report
from PIL import Image

from cplsr.backbones.load import load_backbone
from cplsr.data.decode import decode
from cplsr.data.listing import open_listing
from cplsr.data.procedural import make_domain

DRAWN, SIDE, CLASSES = 64, 256, 10
TICKS = os.sysconf("SC_CLK_TCK")
POLL_SECONDS = 0.2


def originals(folder: Path) -> list[Path]:
    """Photos, or where there are none, 64 enlarged procedural pictures that are written to a folder."""
    if real := os.environ.get("CPLSR_REAL_DATA"):
        return sorted((Path(real) / "data" / "photos").glob("*/*.*"))
    pictures = make_domain("landcover", "train")
    for number in range(DRAWN):
        picture = Image.fromarray(pictures.render(number * len(pictures.labels) // DRAWN))
        picture.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(folder / f"{number}.jpg", quality=90)
    return sorted(folder.glob("*.jpg"))


def write_list(table: Path, files: list[Path], count: int) -> Path:
    """A table that names `count` images: the files, again and again."""
    with table.open("w", encoding="utf-8") as stream:
        stream.write("path,label\n")
        for number, file in enumerate(islice(cycle(files), count)):
            stream.write(f"{file},class {number % CLASSES}\n")
    return table


@dataclass
class Seen:
    """What was seen of one run: images/s, processor seconds and peak megabytes of all processes, hash of its files."""

    rate: float
    cpu: float
    peak: float
    content: str


def tree(root: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, parent = int(stat.parent.name), int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def own_megabytes(pid: int) -> float:
    """Memory of a process that it does not share with others."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_", "Pss_Shmem"))) / 1024


def processor_seconds(pid: int) -> float:
    """Processor time of a process itself; those below it are watched on their own."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / TICKS


def is_embedding(pid: int) -> bool:
    """Whether a process is one that embeds: of the pool, or a worker of ray at work."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"ray::embed_shard" in command or (b"spawn_main" in command and own_megabytes(pid) > 100)


def run(table: Path, out: Path, *options: str, shard_images: int, kill: bool = False) -> Seen:
    """Run `cplsr embed` and watch it; with `kill`, kill one process that embeds once two shards are there."""
    command = [sys.executable, "-m", "cplsr", "embed", str(table), "--out", str(out), "--backbone", "embedded"]
    command += ["--pooling", "cls", "--adapter", "frozen", "--shard-images", str(shard_images), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak, cpu, times = 0.0, {}, []
    while process.poll() is None:
        pids = tree(process.pid)
        peak = max(peak, sum(map(own_megabytes, pids)))
        cpu |= {pid: max(cpu.get(pid, 0.0), processor_seconds(pid)) for pid in pids}
        times += [time.perf_counter()] * (len(list(out.glob("[0-9]*.safetensors"))) - len(times))
        if kill and len(times) >= 2 and (victims := [pid for pid in pids[1:] if is_embedding(pid)]):
            os.kill(victims[0], signal.SIGKILL)
            kill = False
        time.sleep(POLL_SECONDS)
    if process.returncode or kill:
        raise SystemExit(f"{' '.join(command)} gave {process.returncode}" + " and was over too soon to kill" * kill)
    digest = hashlib.sha256()
    for file in sorted(out.glob("*.*")):
        digest.update(file.name.encode() + file.read_bytes())
    rate = (len(times) - 1) * shard_images / max(times[-1] - times[0], 1e-9)
    return Seen(rate, sum(cpu.values()), peak, digest.hexdigest())


def bare_seconds(table: Path, count: int) -> tuple[float, float]:
    """Processor seconds per image, with one thread: the bare backbone on pixels in memory, and decoding."""
    torch.set_num_threads(1)
    backbone, domain = load_backbone("embedded"), open_listing(table).select(range(count))
    start = time.process_time()
    pixels = torch.cat([batch.pixels for batch in decode(domain, backbone.image_size, workers=0)])
    middle = time.process_time()
    with torch.inference_mode():
        for part in pixels.split(64):
            backbone(part)
    return (time.process_time() - middle) / count, (middle - start) / count


def median_of(seen: list[Seen], part: Callable[[Seen], float]) -> float:
    """The median of one figure."""
    return statistics.median(map(part, seen))


def main() -> None:
    """Take turns, compare files, print."""
    options = arguments(__doc__ or "")
    count, few, many, shard, rounds = (240, 200, 2_000, 30, 1) if options.quick else (20_000, 2_000, 200_000, 1024, 3)
    sides = {
        "local 1": ("--processes", "1"),
        "local 2": ("--processes", "2"),
        **({} if options.quick else {"ray 1": ("--engine", "ray", "--processes", "1")}),
        "ray 2": ("--engine", "ray", "--processes", "2"),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["CPLSR_CACHE"] = str(folder / "cache")
        files = originals(folder)
        table = write_list(folder / "list.csv", files, count)
        seen: dict[str, list[Seen]] = {side: [] for side in sides}
        for turn in range(rounds):
            for side, given in sides.items():
                kill = side.endswith("2") and turn == rounds - 1
                seen[side].append(run(table, folder / f"{side} {turn}", *given, shard_images=shard, kill=kill))
                last = seen[side][-1]
                print(
                    f"{side}: {last.rate:.1f} images/s, {1000 * last.cpu / count:.2f} processor ms per image, "
                    f"{last.peak:.0f} MB{', one process killed' * kill}",
                    flush=True,
                )
        same = {each.content for runs in seen.values() for each in runs}
        backbone, decoding = bare_seconds(table, min(count, 1_000))
        print(f"one thread: backbone {1000 * backbone:.2f} ms per image, decoding {1000 * decoding:.2f} ms")
        peaks = [memory(folder, files, each, processes=1 if options.quick else 2) for each in (few, many)]
    claims = [
        Claim("different results of all runs, two of them with a killed process", len(same), 1, "lower", 1),
        Claim("backbone's share of the processor time of one image", backbone, backbone + decoding, "higher", 0.8),
        Claim(f"peak MB, {many:,} images against {few:,}", peaks[1], peaks[0], "lower", 1.1),
    ]
    if not options.quick:
        rates = {side: median_of(runs[:-1], lambda each: each.rate) for side, runs in seen.items()}
        claims += [
            Claim(
                f"{engine}: images/s, 2 processes against 1", rates[f"{engine} 2"], rates[f"{engine} 1"], "higher", 1.7
            )
            for engine in ("local", "ray")
        ]
    report(claims, options.json)


def memory(folder: Path, files: list[Path], count: int, processes: int) -> float:
    """Peak megabytes of embedding `count` images: a list of the same 50 small files."""
    small = folder / "small"
    small.mkdir(exist_ok=True)
    for number, file in enumerate(files[:50]):
        Image.open(file).convert("RGB").resize((48, 48)).save(small / f"{number}.png")
    table = write_list(folder / f"{count}.csv", sorted(small.glob("*.png")), count)
    out = folder / f"memory {count}"
    options = ("--processes", str(processes), "--image-size", "32")
    return run(table, out, *options, shard_images=min(1024, count // 8)).peak


if __name__ == "__main__":
    main()
