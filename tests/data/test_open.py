"""The one door: which source is opened by whom, and what is said of the others."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from cplsr.data.open import open_domain
from cplsr.errors import InputError


def paint(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4)).save(path)


@pytest.mark.parametrize("kind", [str, Path])
def test_folders_and_their_splits(kind: type, tmp_path: Path) -> None:
    paint(tmp_path / "train" / "cow" / "a.png")
    paint(tmp_path / "val" / "ant" / "a.png")
    assert open_domain(kind(tmp_path / "train")).classes == ("cow",)
    assert open_domain(kind(tmp_path), split="val").classes == ("ant",)
    with pytest.raises(InputError, match="does not exist"):
        open_domain(kind(tmp_path), split="test")


def test_opening_a_folder_and_reading_its_images_needs_no_torch(tmp_path: Path) -> None:
    paint(tmp_path / "cow" / "a.png")
    code = "import sys, cplsr; cplsr.open_domain(sys.argv[1]).reader(0); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_tables(tmp_path: Path) -> None:
    paint(tmp_path / "a.png")
    (tmp_path / "t.csv").write_text("path,label\na.png,cow\n")
    assert open_domain(tmp_path / "t.csv").classes == ("cow",)
    with pytest.raises(InputError, match="has no splits"):
        open_domain(tmp_path / "t.csv", split="val")


def test_a_path_is_always_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paint(tmp_path / "digits" / "cow" / "a.png")
    monkeypatch.chdir(tmp_path)
    assert open_domain(Path("digits")).classes == ("cow",)
    assert open_domain("./digits").classes == ("cow",)
    assert len(open_domain("digits").classes) == 10


def test_a_folder_with_a_colon_in_its_name(tmp_path: Path) -> None:
    paint(tmp_path / "eurosat:mine" / "cow" / "a.png")
    assert open_domain(f"{tmp_path}/eurosat:mine").classes == ("cow",)


def test_strict_reaches_the_opener(tmp_path: Path) -> None:
    paint(tmp_path / "cow" / "a.png")
    (tmp_path / "cow" / "notes.txt").write_text("x")
    assert len(open_domain(tmp_path)) == 1
    with pytest.raises(InputError, match=r"notes\.txt"):
        open_domain(tmp_path, strict=True)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_base_sets_know_their_validation_split(tmp_path: Path) -> None:
    paint(tmp_path / "n01532829" / "a.png")  # of the training classes
    paint(tmp_path / "n01855672" / "b.png")  # of the validation classes
    with pytest.warns(UserWarning, match="64 classes expected, 1 found"):
        domain = open_domain(f"mini-imagenet:{tmp_path}")
    assert domain.name == "mini-ImageNet"
    assert domain.classes == ("n01532829",)
    assert domain.flags == ("64 classes expected, 1 found", "38,400 images expected, 1 found")
    assert domain.validation is not None
    with pytest.warns(UserWarning, match="16 classes expected"):
        validation = pickle.loads(pickle.dumps(domain)).validation()
    assert validation.name == "mini-ImageNet@val"
    assert validation.classes == ("n01855672",)
    assert validation.validation is None
    with pytest.warns(UserWarning, match="9,600 images expected, 1 found"):
        assert open_domain(f"Mini-ImageNet:{tmp_path}@val").classes == ("n01855672",)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("eurosta:/somewhere", r"did you mean eurosat:/somewhere\?"),
        ("quite:different", "neither a path nor the name of a data set: give a folder"),
        ("no/such/folder", "does not exist: give a folder"),
        ("procedural:basse", "no procedural domain 'basse'"),
        ("hf:", "names no data set"),
    ],
)
def test_unknown_sources_are_errors_with_advice(source: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_domain(source)


def test_other_files_and_needless_splits_are_errors(tmp_path: Path) -> None:
    (tmp_path / "x.zip").touch()
    with pytest.raises(InputError, match="a file of unknown kind"):
        open_domain(tmp_path / "x.zip")
    with pytest.raises(InputError, match="digits has no splits"):
        open_domain("digits", split="val")
    with pytest.raises(InputError, match="has no splits"):
        open_domain(f"eurosat:{tmp_path}", split="val")
