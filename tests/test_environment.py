"""What the machine offers, and what is said when it does not."""

from pathlib import Path

import pytest
import torch

from cplsr import environment
from cplsr.errors import InputError


def test_cache_folder_follows_the_variables(monkeypatch):
    monkeypatch.setenv("CPLSR_CACHE", "~/somewhere")
    assert environment.cache_folder() == Path.home() / "somewhere"
    monkeypatch.delenv("CPLSR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert environment.cache_folder() == Path("/x/cplsr")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert environment.cache_folder() == Path.home() / ".cache" / "cplsr"


@pytest.mark.parametrize(("value", "offline"), [("1", True), ("true", True), ("0", False), ("", False)])
def test_offline_follows_the_variable(monkeypatch, value, offline):
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    assert environment.is_offline() is offline


def test_devices_are_checked(monkeypatch):
    assert environment.choose_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert environment.choose_device("auto") == torch.device("cpu")
    for name in ("cuda", "mps", "abacus"):
        with pytest.raises(InputError, match=name):
            environment.choose_device(name)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert environment.choose_device("auto") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert environment.choose_device("auto") == torch.device("cuda")


@pytest.mark.parametrize(("fast", "chosen"), [(True, "bf16"), (False, "fp32")])
def test_auto_precision_is_bf16_only_where_it_is_fast(monkeypatch, fast, chosen):
    monkeypatch.setattr(environment, "_cpu_has_bf16", lambda: fast)
    cpu = torch.device("cpu")
    assert environment.choose_precision("auto", cpu) == chosen
    assert environment.choose_precision("bf16", cpu) == "bf16"
    assert environment.choose_precision("fp32", cpu) == "fp32"
    with pytest.raises(InputError, match="fp8"):
        environment.choose_precision("fp8", cpu)


def test_freed_memory_is_kept_where_glibc_allocates(monkeypatch):
    import sys

    if sys.platform == "linux":
        assert environment.keep_freed_memory()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not environment.keep_freed_memory()


def test_versions_name_this_package():
    assert environment.versions()["cplsr"]
    assert environment.installed_version("no-such-distribution") is None
