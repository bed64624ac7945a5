"""Examining a domain before it is used: what is right, what is not, and how to put it right."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, final

from PIL import Image

from cplsr.data.decode import over_images
from cplsr.data.domain import Domain
from cplsr.data.preprocess import ORIENTATION_TAG, UPRIGHT, to_rgb
from cplsr.errors import counted
from cplsr.settings.episodes import EpisodeShape

Verdict = Literal["good", "remark", "bad"]
SHOWN = 4
KINDS = {
    "1": "black and white",
    "L": "grey",
    "LA": "grey with transparency",
    "P": "palette",
    "PA": "palette with transparency",
    "RGBA": "RGBA",
    "CMYK": "CMYK",
    "I": "more than 8 bits",
    "F": "floating point",
}


@final
@dataclass(frozen=True)
class Finding:
    """One line of a diagnosis; `fix` says what to do about it, where there is something to do.

    Episodes can be drawn from a domain if nothing that was found is bad.
    """

    verdict: Verdict
    text: str
    fix: str = ""


@final
@dataclass(frozen=True)
class ImageFacts:
    """What an examination keeps of an image."""

    kind: str
    width: int
    height: int
    rotated: bool
    digest: bytes


def examine(
    domain: Domain, episodes: EpisodeShape, *, where: str | None = None, workers: int | None = None
) -> tuple[Finding, ...]:
    """Read every image of a domain once and say what is right and what is not, for episodes of that shape.

    `where` the complete data set can be had is for the advice; `workers` as for `decode`.
    """
    facts: dict[int, ImageFacts] = {}
    failed: dict[int, str] = {}
    for batch in over_images(domain, image_facts, workers=workers, description=f"examining {domain.name}"):
        facts.update(batch.done)
        failed.update(batch.failed)
    return (
        *_counts(domain, where),
        *_skipped(domain),
        *_unreadable(domain, failed),
        *_small_classes(domain, facts, episodes),
        *_duplicates(domain, facts),
        *_kinds(facts.values()),
    )


def image_facts(image: Image.Image) -> ImageFacts:
    """What an examination keeps of an image; fails where preprocessing would."""
    kind = KINDS.get(image.mode, KINDS["I"] if image.mode.startswith("I") else image.mode)
    if image.mode == "P" and "transparency" in image.info:
        kind = KINDS["PA"]
    rgb = to_rgb(image)
    digest = hashlib.blake2b(f"{rgb.size}".encode() + rgb.tobytes(), digest_size=16).digest()
    rotated = image.info.get("exif") is not None and image.getexif().get(ORIENTATION_TAG) in UPRIGHT
    return ImageFacts(kind, image.width, image.height, rotated, digest)


def _names(names: Sequence[str]) -> str:
    more = f", and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _counts(domain: Domain, where: str | None) -> Iterable[Finding]:
    text = f"{counted(len(domain.classes), 'class')}, {counted(len(domain), 'image')}"
    if not domain.flags:
        yield Finding("good", text + (", as in the benchmark" if where else ""))
        return
    advice = f"usable all the same, and every report will say so; the complete data: {where}" if where else ""
    yield Finding("remark", f"{text}: {'; '.join(domain.flags)}", advice)


def _skipped(domain: Domain) -> Iterable[Finding]:
    if domain.skipped:
        names = [f"{name} ({reason})" for name, reason in domain.skipped]
        yield Finding("remark", f"{counted(len(names), 'file')} left out: {_names(names)}", "remove or replace them")


def _unreadable(domain: Domain, failed: Mapping[int, str]) -> Iterable[Finding]:
    names = [f"{domain.image_name(index)} ({reason})" for index, reason in sorted(failed.items())]
    if names:
        yield Finding(
            "remark",
            f"{counted(len(names), 'image')} cannot be read: {_names(names)}",
            "download or export them again, or delete them; they are skipped and counted otherwise",
        )
    else:
        yield Finding("good", "every image can be read")


def _small_classes(domain: Domain, facts: Mapping[int, ImageFacts], episodes: EpisodeShape) -> Iterable[Finding]:
    needed = episodes.shot + episodes.query
    readable = Counter(int(domain.labels[index]) for index in facts)
    small = [f"{name} ({readable[label]})" for label, name in enumerate(domain.classes) if readable[label] < needed]
    enough = len(domain.classes) - len(small)
    asked = f"{episodes.shot} shot + {episodes.query} query = {needed} images"
    if enough < episodes.way:
        yield Finding(
            "bad",
            f"{counted(enough, 'class')} of {len(domain.classes)} with {asked}, but episodes have {episodes.way}"
            + (f"; too few in {_names(small)}" if small else ""),
            "add images or classes, or lower --way, --shot or --query",
        )
    elif small:
        yield Finding(
            "remark",
            f"{counted(len(small), 'class')} with fewer than {asked}: {_names(small)}",
            "these classes are left out of episodes: add images, or lower --shot or --query",
        )
    else:
        yield Finding("good", f"every class has {asked}")


def _duplicates(domain: Domain, facts: Mapping[int, ImageFacts]) -> Iterable[Finding]:
    same: dict[bytes, list[int]] = {}
    for index, one in sorted(facts.items()):
        same.setdefault(one.digest, []).append(index)
    across = [copies for copies in same.values() if len({int(domain.labels[index]) for index in copies}) > 1]
    within = [copies for copies in same.values() if len(copies) > 1 and copies not in across]
    for groups, shown, where, advice in (
        (across, 3, "in more than one class", "keep each image in the class it belongs to and delete the other copy"),
        (within, 2, "more than once in a class", "delete the copies, or support and query may hold the same picture"),
    ):
        if groups:
            names = [" = ".join(domain.image_name(index) for index in copies[:shown]) for copies in groups]
            yield Finding("remark", f"{counted(len(groups), 'image')} {where}: {_names(names)}", advice)
    if not across and not within:
        yield Finding("good", "no image occurs twice")


def _kinds(facts: Collection[ImageFacts]) -> Iterable[Finding]:
    if not facts:
        return
    kinds = Counter(one.kind for one in facts if one.kind != "RGB")
    rotated = sum(one.rotated for one in facts)
    parts = [f"{number:,} {kind}" for kind, number in kinds.most_common()]
    parts += [f"{rotated:,} turned by EXIF"] if rotated else []
    if parts:
        yield Finding("good", f"not plain RGB: {', '.join(parts)}; converted when read, nothing to do")
    sizes = sorted({(one.width, one.height) for one in facts}, key=lambda size: (size[0] * size[1], size))
    smallest, largest = (f"{width} × {height}" for width, height in (sizes[0], sizes[-1]))
    yield Finding("good", f"{smallest} pixels" if len(sizes) == 1 else f"from {smallest} to {largest} pixels")
