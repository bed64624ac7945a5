"""Packages of npm that tests use where they are: tests load nothing from a network. `make test-assets` brings them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("CPLSR_TEST_ASSETS") or Path(__file__).parents[1] / ".assets")


def npm_asset(package: str) -> Path:
    """The `.tgz` of a package, `name-version`; the test is skipped where it is absent."""
    file = FOLDER / f"{package}.tgz"
    if not file.is_file():
        pytest.skip(f"{file.name} is not in {FOLDER}: 'make test-assets' brings it, once, with npm")
    return file
