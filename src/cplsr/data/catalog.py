"""The benchmark's data sets: their layouts as downloaded, their classes and counts, and where to get them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, final

from cplsr.data.domain import Domain
from cplsr.data.target_layouts import open_chestx, open_cropdisease, open_eurosat, open_isic
from cplsr.data.wordnet_split import open_wordnet_split

Opener = Callable[[str, str, bool], Domain]
ALL = "all"


@final
@dataclass(frozen=True)
class Expected:
    """How many classes and images a complete download has."""

    classes: int
    images: int


@final
@dataclass(frozen=True)
class CatalogEntry:
    """A data set that is opened as `name:DIR`.

    Attributes:
        name: what stands before the colon.
        title: what reports call it.
        role: whether it is trained on or tested on.
        expected: counts of a complete download by split; targets have the one split `all`.
        layout: what is looked for below DIR.
        where: where to get it.
        opener: (DIR, split, strict) → domain.
    """

    name: str
    title: str
    role: Literal["base", "target"]
    expected: Mapping[str, Expected]
    layout: str
    where: str
    opener: Opener

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits, none where there is only the whole."""
        return () if ALL in self.expected else tuple(self.expected)

    @property
    def default_split(self) -> str:
        """The split that is opened when none is named."""
        return self.splits[0] if self.splits else ALL

    def open(self, root: str, split: str, strict: bool) -> Domain:
        """Open a split of the data set below `root`; counts that differ from the expected become flags and warnings."""
        domain = self.opener(root, split, strict)
        name = f"{self.title}@{split}" if self.splits and split != self.default_split else self.title
        flags = (*domain.flags, *self.compare(domain, split))
        for flag in flags:
            warnings.warn(f"{name}: {flag}", UserWarning, stacklevel=3)
        return replace(domain, name=name, flags=flags)

    def compare(self, domain: Domain, split: str) -> tuple[str, ...]:
        """List what differs from the expected counts, naming both numbers."""
        expected = self.expected[split]
        counts = (("classes", expected.classes, len(domain.classes)), ("images", expected.images, len(domain)))
        return tuple(
            f"{wanted:,} {what} expected, {found:,} found" for what, wanted, found in counts if wanted != found
        )


_WORDNET_LAYOUT = (
    "folders named by WordNet id (all in one, or in train/, val/, test/); csv splits with images/; "
    "or hf:user/name or parquet files labeled by WordNet id"
)

CATALOG: Mapping[str, CatalogEntry] = {
    entry.name: entry
    for entry in (
        CatalogEntry(
            "mini-imagenet",
            "mini-ImageNet",
            "base",
            {"train": Expected(64, 38_400), "val": Expected(16, 9_600), "test": Expected(20, 12_000)},
            _WORDNET_LAYOUT,
            "ImageNet (image-net.org, ILSVRC 2012); csv splits: github.com/twitter-research/meta-learning-lstm",
            partial(open_wordnet_split, "mini-imagenet"),
        ),
        CatalogEntry(
            "tiered-imagenet",
            "tiered-ImageNet",
            "base",
            {"train": Expected(351, 448_695), "val": Expected(97, 124_261), "test": Expected(160, 206_209)},
            _WORDNET_LAYOUT,
            "ImageNet (image-net.org, ILSVRC 2012): its train folder is enough",
            partial(open_wordnet_split, "tiered-imagenet"),
        ),
        CatalogEntry(
            "chestx",
            "ChestX",
            "target",
            {ALL: Expected(7, 25_848)},
            "Data_Entry_2017.csv with images/ or images_001/images/ …",
            "NIH ChestX-ray8: nihcc.app.box.com/v/ChestXray-NIHCC, or kaggle.com/datasets/nih-chest-xrays/data",
            open_chestx,
        ),
        CatalogEntry(
            "isic",
            "ISIC",
            "target",
            {ALL: Expected(7, 10_015)},
            "ISIC2018_Task3_Training_GroundTruth.csv with the training images",
            "challenge.isic-archive.com/data: 2018, task 3, training data and ground truth",
            open_isic,
        ),
        CatalogEntry(
            "eurosat",
            "EuroSAT",
            "target",
            {ALL: Expected(10, 27_000)},
            "2750/<class>/*.jpg or EuroSAT_RGB/<class>/*.jpg",
            "github.com/phelber/EuroSAT: the RGB version",
            open_eurosat,
        ),
        CatalogEntry(
            "cropdisease",
            "CropDisease",
            "target",
            {ALL: Expected(38, 43_456)},
            "train/<class>/*",
            "kaggle.com/datasets/saroz014/plant-disease",
            open_cropdisease,
        ),
    )
}
