"""mini- and tiered-ImageNet: class lists, layouts, and the data set that is not what its name says."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cplsr.data.catalog import CATALOG
from cplsr.data.wordnet_split import SPLITS, class_list, open_wordnet_split
from cplsr.errors import InputError

MINI = {split: class_list("mini-imagenet", split) for split in SPLITS}


def paint(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4)).save(path)


@pytest.mark.parametrize(("name", "sizes"), [("mini-imagenet", (64, 16, 20)), ("tiered-imagenet", (351, 97, 160))])
def test_class_lists_have_the_published_sizes_and_share_nothing(name: str, sizes: tuple[int, ...]) -> None:
    lists = [class_list(name, split) for split in SPLITS]
    assert tuple(map(len, lists)) == sizes
    assert tuple(count.classes for count in CATALOG[name].expected.values()) == sizes
    for wnids in lists:
        assert list(wnids) == sorted(set(wnids))
        assert all(len(wnid) == 9 and wnid[0] == "n" and wnid[1:].isdigit() for wnid in wnids)
    for first, second in itertools.combinations(lists, 2):
        assert not set(first) & set(second)


def test_some_classes_are_where_the_literature_has_them() -> None:
    assert "n01532829" in MINI["train"]  # house finch
    assert "n02138441" in MINI["val"]  # meerkat
    assert "n02129165" in MINI["test"]  # lion
    assert "n01530575" in class_list("tiered-imagenet", "train")  # brambling, of the songbirds
    assert "n02099601" in class_list("tiered-imagenet", "val")  # golden retriever, of the sporting dogs
    assert "n07873807" in class_list("tiered-imagenet", "test")  # pizza, of the food


def test_counts_of_the_catalog_are_those_published() -> None:
    mini, tiered = CATALOG["mini-imagenet"], CATALOG["tiered-imagenet"]
    assert sum(count.images for count in mini.expected.values()) == 60_000
    assert all(count.images == 600 * count.classes for count in mini.expected.values())
    assert sum(count.images for count in tiered.expected.values()) == 779_165


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("prefix", ["", "images/", "train/", "{split}/"])
def test_folders_by_wordnet_id(split: str, prefix: str, tmp_path: Path) -> None:
    if prefix == "{split}/":
        for other in SPLITS:
            for wnid in MINI[other]:
                paint(tmp_path / other / wnid / "a.png")
    else:
        for wnid in (*itertools.chain(*MINI.values()), "n99999999"):
            paint(tmp_path / prefix / wnid / "a.png")
    domain = open_wordnet_split("mini-imagenet", str(tmp_path), split, strict=True)
    assert domain.classes == MINI[split]
    assert len(domain) == len(MINI[split])


def test_validation_classes_are_not_taken_from_imagenets_own_validation_images(tmp_path: Path) -> None:
    for wnid in itertools.chain(*MINI.values()):
        paint(tmp_path / "train" / wnid / "of-train.png")
        paint(tmp_path / "val" / wnid / "of-val.png")
    domain = open_wordnet_split("mini-imagenet", str(tmp_path), "val", strict=True)
    assert domain.image_name(0).endswith("of-train.png")


@pytest.mark.parametrize("folder", ["", "splits/"])
def test_csv_splits_with_images(folder: str, tmp_path: Path) -> None:
    paint(tmp_path / "images" / "n0185567200000001.jpg")
    paint(tmp_path / "images" / "n0209124400000003.jpg")
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "val.csv").write_text(
        "filename,label\nn0209124400000003.jpg,n02091244\nn0185567200000001.jpg,n01855672\nabsent.jpg,n01855672\n"
    )
    domain = open_wordnet_split("mini-imagenet", str(tmp_path), "val", strict=False)
    assert domain.classes == ("n01855672", "n02091244")
    assert domain.labels.tolist() == [1, 0]
    assert [name for name, _ in domain.skipped] == ["absent.jpg"]


def test_a_csv_of_another_split_is_refused(tmp_path: Path) -> None:
    paint(tmp_path / "images" / "a.jpg")
    (tmp_path / "val.csv").write_text(f"filename,label\na.jpg,{MINI['train'][0]}\n")
    with pytest.raises(InputError, match=f"1 classes that are not of this split .{MINI['train'][0]}"):
        open_wordnet_split("mini-imagenet", str(tmp_path), "val", strict=False)


def test_other_folders_and_splits_are_errors_that_say_what_was_found(tmp_path: Path) -> None:
    paint(tmp_path / "cow" / "a.png")
    with pytest.raises(InputError, match=r"no folders named by WordNet id .* found 1 folder \(cow\)"):
        open_wordnet_split("mini-imagenet", str(tmp_path), "train", strict=False)
    with pytest.raises(InputError, match="is not a folder"):
        open_wordnet_split("mini-imagenet", str(tmp_path / "absent"), "train", strict=False)
    with pytest.raises(InputError, match="no split 'trainval'"):
        class_list("mini-imagenet", "trainval")


def test_the_hubs_mini_imagenet_by_image_is_refused_with_the_reason() -> None:
    with pytest.raises(InputError, match=r"timm/mini-imagenet is split by image, not by class.*64/16/20"):
        open_wordnet_split("mini-imagenet", "hf:timm/mini-imagenet", "train", strict=False)


@pytest.fixture
def data_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return datasets


def table(datasets, wnids: tuple[str, ...]):
    """One small image for each WordNet id."""
    images = [Image.fromarray(np.full((4, 4, 3), number, dtype=np.uint8)) for number in range(len(wnids))]
    names = sorted({*itertools.chain(*MINI.values()), *wnids})  # as on the hub: one list of names for all splits
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=names)})
    return datasets.Dataset.from_dict({"image": images, "label": list(wnids)}, features=features)


def test_a_data_set_in_one_piece_is_split_by_class(data_sets, tmp_path: Path) -> None:
    table(data_sets, tuple(itertools.chain(*MINI.values()))).to_parquet(tmp_path / "all" / "x.parquet")
    for split in SPLITS:
        domain = open_wordnet_split("mini-imagenet", str(tmp_path / "all"), split, strict=True)
        assert domain.classes == MINI[split]


def test_a_data_set_with_splits_by_class_is_taken_as_it_is(data_sets, tmp_path: Path) -> None:
    for name, split in (("train", "train"), ("validation", "val"), ("test", "test")):
        table(data_sets, MINI[split]).to_parquet(tmp_path / "mini" / "data" / f"{name}-00000-of-00001.parquet")
    domain = open_wordnet_split("mini-imagenet", str(tmp_path / "mini"), "val", strict=True)
    assert domain.classes == MINI["val"]
    assert len(domain) == 16


def test_a_data_set_split_by_image_is_refused(data_sets, tmp_path: Path) -> None:
    every = tuple(itertools.chain(*MINI.values()))
    saved = data_sets.DatasetDict({"train": table(data_sets, every), "validation": table(data_sets, every)})
    saved.save_to_disk(tmp_path / "by-image")
    with pytest.raises(InputError, match="split by image, not by class: its split 'train' holds classes that"):
        open_wordnet_split("mini-imagenet", str(tmp_path / "by-image"), "train", strict=False)


def test_a_data_set_with_other_labels_is_refused(data_sets, tmp_path: Path) -> None:
    table(data_sets, ("cat", "dog")).to_parquet(tmp_path / "pets" / "x.parquet")
    with pytest.raises(InputError, match="has classes such as cat, but none of the 64 WordNet ids"):
        open_wordnet_split("mini-imagenet", str(tmp_path / "pets"), "train", strict=False)
