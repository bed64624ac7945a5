"""Packages of npm that tests use where they are: tests load nothing from a network. `make test-assets` brings them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def npm_asset(package: str) -> Path:
    """The `.tgz` of a package, `name-version`.

    The test is skipped where it is absent; where `CPLSR_TEST_ASSETS` names the folder it must be there, and the test
    fails.
    """
    named = os.environ.get("CPLSR_TEST_ASSETS")
    file = Path(named or Path(__file__).parents[1] / ".assets") / f"{package}.tgz"
    if not file.is_file():
        absent = pytest.fail if named else pytest.skip
        absent(f"{file.name} is not in {file.parent}: 'make test-assets' brings it, once, with npm")
    return file
