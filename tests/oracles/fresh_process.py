"""What a process of its own loads, apart from everything that the tests have loaded."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"torch", "transformers", "sklearn", "scipy", "matplotlib", "umap", "datasets", "pandas", "ray"}


def heavy_after(code: str) -> set[str]:
    """Which heavy libraries a fresh process has loaded after some code."""
    code = f"{code}\nimport sys\nprint(*({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())
