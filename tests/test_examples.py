"""The examples in docstrings run, and what the documentation imports or names as a part of the code exists."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from operator import attrgetter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
WITH_EXAMPLES = [path for path in sorted(SOURCE.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
HOP = re.compile(r"\b((?:[a-z_]+/)+[a-z_]+)\.([A-Za-z_]+(?:\.[A-Za-z_]+)?)")
"""A file of the package, and what is in it: data/open.open_domain"""
FILE = re.compile(r"`([a-z_/]+\.py)`")
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.stem)
def test_examples_in_docstrings_run(path):
    module = importlib.import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts))
    failed, attempted = doctest.testmod(module)
    assert attempted
    assert not failed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_imports_in_the_documentation_exist(page):
    for block in PYTHON_BLOCK.findall(page.read_text(encoding="utf-8")):
        if "import" not in block:
            continue  # a fragment that stands for a line of a file
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cplsr"):
                module = importlib.import_module(node.module)
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cplsr":
                assert hasattr(importlib.import_module("cplsr"), node.attr)


def test_the_architecture_page_names_files_and_functions_that_exist():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    package = SOURCE / "cplsr"
    assert [file for file in FILE.findall(page) if not any(package.rglob(file))] == []
    hops = [(file, name) for file, name in HOP.findall(page) if name != "py"]
    assert len(hops) > 20
    for file, name in hops:
        attrgetter(name)(importlib.import_module(f"cplsr.{file.replace('/', '.')}"))


@pytest.mark.soak  # half a minute of mypy; `make check` looks at the client with the settings of this project
def test_a_strictly_typed_client_needs_no_settings_of_ours(tmp_path):
    api = pytest.importorskip("mypy.api")
    (tmp_path / "mypy.ini").write_text("[mypy]\nfollow_imports = silent\n")
    client = tmp_path / "client.py"
    example = (ROOT / "docs" / "examples" / "typed_client.py").read_text(encoding="utf-8")
    client.write_text(f"{example}\n\nNAMES: list[str] = list(cplsr.__all__)\n", encoding="utf-8")
    options = ["--strict", "--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(tmp_path / "cache")]
    said, errors, code = api.run([*options, str(client)])
    assert (said, errors, code) == ("Success: no issues found in 1 source file\n", "", 0)
