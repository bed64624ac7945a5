"""`python -m soak`: kills, damaged inputs and load on the page; what a number is 0 for is left out."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import torch
from soak.damage import damage_all
from soak.kills import kill_all
from soak.page_load import load_page
from soak.world import make_world


def main() -> int:
    """Exit code 0 if everything held."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="random kills in all")
    parser.add_argument("--damaged", type=int, default=10_000, help="damaged inputs in all")
    parser.add_argument("--page-seconds", type=float, default=3600, help="load on the page")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    place = Path(tempfile.mkdtemp(prefix="cplsr-soak-"))
    with (place / "log").open("w") as log, redirect_stdout(log), redirect_stderr(log):
        world = make_world(place / "world")
    if options.kills:
        kill_all(world, place, options.kills, options.seed)
    failures = damage_all(world, options.damaged, options.seed) if options.damaged else 0
    if options.page_seconds:
        load_page(world.checkpoint, options.page_seconds, options.seed)
    shutil.rmtree(place)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
