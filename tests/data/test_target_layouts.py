"""The four target data sets in the layouts in which they are downloaded."""

import importlib.resources
from pathlib import Path

import pytest
from PIL import Image

from cplsr.data.catalog import CATALOG
from cplsr.data.open import open_domain
from cplsr.data.target_layouts import (
    CHESTX_CLASSES,
    EUROSAT_CLASSES,
    ISIC_CLASSES,
    open_chestx,
    open_cropdisease,
    open_eurosat,
    open_isic,
)
from cplsr.errors import InputError


def paint(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4)).save(path)


@pytest.mark.parametrize("prefix", ["", "2750", "EuroSAT_RGB", "EuroSAT/2750"])
def test_eurosat_is_found_wherever_the_archive_puts_it(prefix: str, tmp_path: Path) -> None:
    for name in (*EUROSAT_CLASSES, "__MACOSX"):
        paint(tmp_path / prefix / name / f"{name}_1.jpg")
    domain = open_eurosat(str(tmp_path), "all", strict=True)
    assert domain.classes == EUROSAT_CLASSES
    assert domain.image_name(0) == "AnnualCrop/AnnualCrop_1.jpg"


def test_missing_classes_and_images_become_flags_and_warnings(tmp_path: Path) -> None:
    for name in EUROSAT_CLASSES[:7]:
        paint(tmp_path / name / "a.jpg")
    with pytest.warns(UserWarning, match="EuroSAT") as warned:
        domain = open_domain(f"eurosat:{tmp_path}")
    assert domain.name == "EuroSAT"
    assert domain.flags == ("10 classes expected, 7 found", "27,000 images expected, 7 found")
    assert [str(one.message) for one in warned] == [f"EuroSAT: {flag}" for flag in domain.flags]


def test_a_complete_set_has_no_flags(tmp_path: Path) -> None:
    domain = open_eurosat(str(_eurosat(tmp_path)), "all", strict=False)
    entry = CATALOG["eurosat"]
    assert entry.compare(domain, "all") == ("27,000 images expected, 10 found",)
    assert entry.compare(domain.select([0] * 27_000), "all") == ()


def _eurosat(root: Path) -> Path:
    for name in EUROSAT_CLASSES:
        paint(root / name / "a.jpg")
    return root


def test_a_link_back_to_the_folder_does_not_make_the_search_endless(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    with pytest.raises(InputError, match="does not look like EuroSAT: no folders named AnnualCrop"):
        open_eurosat(str(tmp_path), "all", strict=False)


def test_cropdisease_takes_train_and_forgives_spellings(tmp_path: Path) -> None:
    file = importlib.resources.files("cplsr.data") / "class_lists" / "cropdisease.txt"
    names = file.read_text(encoding="utf-8").splitlines()
    assert len(set(names)) == 38
    for name in names:
        # The original has a space here and there, where other copies have an underscore.
        paint(tmp_path / "dataset" / "train" / name.replace("spot_Gray", "spot Gray").upper() / "a.jpg")
        paint(tmp_path / "dataset" / "test" / name / "b.jpg")
    domain = open_cropdisease(str(tmp_path), "all", strict=True)
    assert len(domain.classes) == 38
    assert domain.image_name(0).endswith("a.jpg")


CHESTX_TABLE = """Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age
a.png,Atelectasis,0,1,57
b.png,Atelectasis|Mass,1,1,58
c.png,No Finding,0,2,50
d.png,Mass,0,3,40
e.png,Hernia,0,4,40
f.png,Mass,0,5,40
"""


@pytest.mark.parametrize("folders", [("images", "images"), ("images_001/images", "images_002/images")])
def test_chestx_keeps_single_findings_of_the_seven_and_patients(folders: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "Data_Entry_2017.csv").write_text(CHESTX_TABLE)
    for name in "abc":
        paint(tmp_path / folders[0] / f"{name}.png")
    for name in "de":
        paint(tmp_path / folders[1] / f"{name}.png")
    domain = open_chestx(str(tmp_path), "all", strict=False)
    assert domain.classes == ("Atelectasis", "Mass")
    assert [domain.image_name(index) for index in range(2)] == [f"{folders[0]}/a.png", f"{folders[1]}/d.png"]
    assert domain.groups is not None
    assert domain.groups.tolist() == ["1", "3"]
    assert domain.reader(1).size == (4, 4)
    assert domain.skipped == (("f.png", "No such file or directory"),)


def test_chestx_with_another_table_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "Data_Entry_2017.csv").write_text("image,label\na.png,Mass\n")
    with pytest.raises(InputError, match="no column 'Image Index'"):
        open_chestx(str(tmp_path), "all", strict=False)


def test_chestx_and_isic_sorted_into_folders_are_taken_too(tmp_path: Path) -> None:
    for name in CHESTX_CLASSES:
        paint(tmp_path / "chest" / name / "a.png")
    for name in ISIC_CLASSES:
        paint(tmp_path / "skin" / name.lower() / "a.png")
    assert open_chestx(str(tmp_path / "chest"), "all", strict=True).classes == CHESTX_CLASSES
    assert len(open_isic(str(tmp_path / "skin"), "all", strict=True).classes) == 7


def isic(root: Path, rows: str, lesions: str | None = None) -> Path:
    truth = root / "ISIC2018_Task3_Training_GroundTruth"
    truth.mkdir()
    header = "image,MEL,NV,BCC,AKIEC,BKL,DF,VASC\n"
    (truth / "ISIC2018_Task3_Training_GroundTruth.csv").write_text(header + rows)
    if lesions is not None:
        (root / "ISIC2018_Task3_Training_LesionGroupings.csv").write_text("image,lesion_id,kind\n" + lesions)
    for name in ("ISIC_0024306", "ISIC_0024307"):
        paint(root / "ISIC2018_Task3_Training_Input" / f"{name}.jpg")
    return root


ISIC_ROWS = "ISIC_0024306,0.0,1.0,0.0,0.0,0.0,0.0,0.0\nISIC_0024307,1.0,0.0,0.0,0.0,0.0,0.0,0.0\n"


def test_isic_as_downloaded(tmp_path: Path) -> None:
    domain = open_isic(str(isic(tmp_path, ISIC_ROWS)), "all", strict=True)
    assert domain.classes == ("MEL", "NV")
    assert domain.labels.tolist() == [1, 0]
    assert domain.groups is None
    assert domain.image_name(0) == "ISIC2018_Task3_Training_Input/ISIC_0024306.jpg"


def test_isic_with_lesions_as_groups(tmp_path: Path) -> None:
    root = isic(tmp_path, ISIC_ROWS, "ISIC_0024307,HAM_2,x\nISIC_0024306,HAM_1,x\n")
    groups = open_isic(str(root), "all", strict=True).groups
    assert groups is not None
    assert groups.tolist() == ["HAM_1", "HAM_2"]


def test_isic_rows_with_two_classes_are_an_error(tmp_path: Path) -> None:
    root = isic(tmp_path, "ISIC_0024306,1.0,1.0,0.0,0.0,0.0,0.0,0.0\n")
    with pytest.raises(InputError, match="line 2: 2 classes are marked"):
        open_isic(str(root), "all", strict=False)


@pytest.mark.parametrize("opener", [open_chestx, open_isic, open_eurosat, open_cropdisease])
def test_what_was_found_is_shown(opener, tmp_path: Path) -> None:
    paint(tmp_path / "cow" / "a.png")
    with pytest.raises(InputError, match=r"does not look like .* found 1 folder \(cow\)"):
        opener(str(tmp_path), "all", strict=False)
    with pytest.raises(InputError, match="is not a folder"):
        opener(str(tmp_path / "absent"), "all", strict=False)
