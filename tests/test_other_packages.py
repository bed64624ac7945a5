"""What other installed packages bring: the example of the documentation, and packages that are broken."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cplsr.adapters.kinds import KINDS
from cplsr.episodes.heads import HEADS
from cplsr.errors import InputError

EXAMPLE = Path(__file__).parent.parent / "docs" / "examples" / "own_package"

USE = """
import cplsr
backbone = cplsr.load_backbone("untrained-vit")
stripes = cplsr.open_domain("stripes:20")
cplsr.attach(backbone, "head_temperature", start=2.0)
cplsr.detach(backbone)
settings = cplsr.EpisodeSettings(episodes=20, shots=(2,), query=5)
results = cplsr.evaluate(backbone, {"stripes": stripes}, heads=["nearest_example"], settings=settings)
print([(row.method, row.target, row.accuracy > 20) for row in results.rows])
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment in which the example is installed as pip installs it."""
    folder, source = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("source")
    for path in EXAMPLE.iterdir():
        if path.is_file():
            (source / path.name).write_bytes(path.read_bytes())
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(folder), str(source)], check=True, cwd=source)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def run(environment, *arguments, code=0):
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_backbone_domain_head_and_adapter_of_another_package(environment):
    assert run(environment, "-c", USE).strip() == "[('frozen nearest_example', 'stripes', True)]"


def test_a_method_of_another_package_trains_an_adapter_of_another_package(environment, tmp_path):
    out = tmp_path / "run"
    words = "train --backbone untrained-vit --base stripes:20 --method hidden_patches --train adapter "
    words += "--adapter head_temperature --episodes 2 --way 2 --shot 1 --query 2 --validation-episodes 4 --workers 0"
    run(environment, "-m", "cplsr", *words.split(), "--out", str(out))
    words = "evaluate --backbone untrained-vit --target stripes:20 --episodes 5 --shots 1 --head ridge nearest_example"
    told = run(environment, "-m", "cplsr", *words.split(), "--adapter", f"mine={out}", "--no-cache")
    assert "nearest_example" in told


def test_what_extenders_need_comes_from_its_package_when_it_is_asked_for():
    packages = ("adapters", "methods", "training", "evaluation")
    code = f"import sys; import {', '.join(f'cplsr.{name}' for name in packages)}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    for name in packages:
        package = importlib.import_module(f"cplsr.{name}")
        assert package.__all__
        assert all(getattr(package, each) is not None for each in package.__all__)


def test_names_of_other_packages_are_among_the_suggestions(environment):
    told = run(environment, "-m", "cplsr", "train", "--method", "hiden_patches", "--base", "stripes:20", code=2)
    assert "did you mean 'hidden_patches'?" in told


def test_a_package_that_cannot_be_imported_is_named(tmp_path, monkeypatch):
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[cplsr.heads]\nodd = no_such_module:Head\nridge = no_such_module:Ridge\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"the head 'odd' of the package broken cannot be loaded \(No module named"):
        HEADS.find("odd")
    assert "odd" in list(HEADS)
    assert HEADS.find("ridge").__module__.startswith("cplsr."), "names of the package's own cannot be taken"
    assert "odd" not in KINDS
