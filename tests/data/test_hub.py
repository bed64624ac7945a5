"""Data sets of the `datasets` library, without a network."""

import io
import pickle
import shutil
from pathlib import Path

import pytest
from PIL import Image

from cplsr.data.decode import decode
from cplsr.data.domain import Domain, UnreadableImageError
from cplsr.data.hub import Address
from cplsr.data.open import open_domain
from cplsr.data.parts import open_parts
from cplsr.errors import InputError

datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))


def farm(count: int = 6, **columns: list):
    """Image i is plain grey of value 10 i; labels alternate between cow and ant."""
    images = [Image.new("L", (4, 4), 10 * number) for number in range(count)]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cow", "bee", "ant"])})
    table = datasets.Dataset.from_dict(
        {"image": images, "label": [2 * (number % 2) for number in range(count)]}, features=features
    )
    for name, values in columns.items():
        table = table.add_column(name, values)
    return table


def grey(domain: Domain) -> list[int]:
    return [domain.reader(index).getpixel((0, 0)) for index in range(len(domain))]


def test_a_folder_of_parquet_files(tmp_path: Path) -> None:
    farm().to_parquet(tmp_path / "farm" / "part.parquet")
    domain = open_domain(tmp_path / "farm")
    assert domain.name == "farm"
    assert domain.classes == ("cow", "ant")  # bee has no image
    assert domain.labels.tolist() == [0, 1] * 3
    assert grey(domain) == [0, 10, 20, 30, 40, 50]
    assert grey(pickle.loads(pickle.dumps(domain))) == grey(domain)
    batches = list(decode(domain, 4, batch_size=2, workers=2))
    assert [int(value) for batch in batches for value in batch.pixels[:, 0, 0, 0]] == grey(domain)


def test_parts_travel_without_the_rest_and_are_the_same_images(tmp_path: Path) -> None:
    farm(12).to_parquet(tmp_path / "farm" / "part.parquet")
    whole = open_domain(tmp_path / "farm")
    parts = [pickle.dumps(part) for part in open_parts(tmp_path / "farm").parts(5)]
    assert max(map(len, parts)) < 10_000
    opened = [pickle.loads(part)() for part in parts]
    assert [len(part) for part in opened] == [5, 5, 2]
    assert [name for part in opened for name in part.identities] == list(whole.identities)
    assert [value for part in opened for value in grey(part)] == grey(whole)


def test_splits_by_file_name(tmp_path: Path) -> None:
    for split, count in (("train", 4), ("validation", 2)):
        farm(count).to_parquet(tmp_path / "farm" / "data" / f"{split}-00000-of-00001.parquet")
    assert len(open_domain(tmp_path / "farm")) == 4
    assert len(open_domain(tmp_path / "farm", split="val")) == 2
    with pytest.raises(InputError, match="no split 'test': it has train, validation"):
        open_domain(tmp_path / "farm", split="test")


def test_what_save_to_disk_writes(tmp_path: Path) -> None:
    farm().save_to_disk(tmp_path / "plain")
    datasets.DatasetDict({"train": farm(4), "test": farm(2)}).save_to_disk(tmp_path / "split")
    assert grey(open_domain(tmp_path / "plain")) == [0, 10, 20, 30, 40, 50]
    assert len(open_domain(tmp_path / "split")) == 4
    assert len(open_domain(tmp_path / "split", split="test")) == 2
    with pytest.raises(InputError, match="has no split 'test': it has train"):
        open_domain(tmp_path / "plain", split="test")


@pytest.mark.parametrize("kind", ["parquet", "disk"])
def test_a_moved_folder_keeps_its_fingerprint_and_changed_data_do_not(kind: str, tmp_path: Path) -> None:
    def write(count: int) -> None:
        shutil.rmtree(tmp_path / "farm", ignore_errors=True)
        table = farm(count)
        table.to_parquet(tmp_path / "farm" / "x.parquet") if kind == "parquet" else table.save_to_disk(
            tmp_path / "farm"
        )

    write(6)
    before = open_domain(tmp_path / "farm")
    (tmp_path / "farm").rename(tmp_path / "moved")
    assert open_domain(tmp_path / "moved").fingerprint == before.fingerprint
    write(6)  # the same content at another time
    assert open_domain(tmp_path / "farm").fingerprint == before.fingerprint
    write(4)
    assert not set(open_domain(tmp_path / "farm").identities) & set(before.identities)


def test_bad_images_are_left_to_the_decoder(tmp_path: Path) -> None:
    stream = io.BytesIO()
    Image.new("L", (4, 4), 7).save(stream, "PNG")
    cells = [{"bytes": stream.getvalue(), "path": None}, {"bytes": b"no image", "path": None}, None]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("string")})
    datasets.Dataset.from_dict({"image": cells, "label": ["a", "b", "b"]}, features=features).to_parquet(
        tmp_path / "farm" / "x.parquet"
    )
    domain = open_domain(tmp_path / "farm")
    (batch,) = decode(domain, 4)
    assert batch.indices.tolist() == [0]
    assert batch.failed == ((1, "not an image of a known format"), (2, "no image in this row"))
    with pytest.raises(UnreadableImageError):
        domain.reader(1)


def test_two_label_columns_and_the_choice_between_them(tmp_path: Path) -> None:
    table = farm(4, breed=["x", "y", "z", "z"]).remove_columns("label").add_column("weight", [1, 2, 3, 3])
    table.to_parquet(tmp_path / "farm" / "x.parquet")
    with pytest.raises(InputError, match=r"lacks a label column: it has image, breed, weight"):
        open_domain(tmp_path / "farm")
    assert open_domain(f"hf:{tmp_path}/farm#breed").classes == ("x", "y", "z")
    assert open_domain(f"hf:{tmp_path}/farm#weight").labels.tolist() == [0, 1, 2, 2]
    with pytest.raises(InputError, match="lacks a column 'size'"):
        open_domain(f"hf:{tmp_path}/farm#size")


def test_data_without_images_or_labels_are_refused(tmp_path: Path) -> None:
    farm().remove_columns("image").to_parquet(tmp_path / "blind" / "x.parquet")
    with pytest.raises(InputError, match="blind has 0 image columns among label"):
        open_domain(tmp_path / "blind")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("string")})
    datasets.Dataset.from_dict({"image": [Image.new("L", (1, 1))], "label": [None]}, features=features).to_parquet(
        tmp_path / "unlabeled" / "x.parquet"
    )
    with pytest.raises(InputError, match="does not give every image one label"):
        open_domain(tmp_path / "unlabeled")


def test_empty_and_damaged_folders_are_refused(tmp_path: Path) -> None:
    farm(2).select([]).save_to_disk(tmp_path / "none")
    with pytest.raises(InputError, match="is empty or damaged"):
        open_domain(tmp_path / "none")
    farm(2).to_parquet(tmp_path / "damaged" / "x.parquet")
    with (tmp_path / "damaged" / "x.parquet").open("r+b") as stream:
        stream.truncate(100)
    with pytest.raises(InputError, match="damaged cannot be opened"):
        open_domain(tmp_path / "damaged")


def test_addresses() -> None:
    assert Address.parse("user/name") == Address("user/name", None, None, None)
    assert Address.parse("user/name:full@test#fine") == Address("user/name", "full", "test", "fine")


def test_offline_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"nobody/nothing cannot be opened .*switched off by HF_HUB_OFFLINE"):
        open_domain("hf:nobody/nothing")
