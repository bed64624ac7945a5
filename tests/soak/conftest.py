"""The world is made once for all tests of this folder."""

from __future__ import annotations

import pytest
from soak.world import World, make_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CPLSR_CACHE", "")  # set by `make_world`, and put back afterwards
        return make_world(tmp_path_factory.mktemp("world"))
