"""Decoding in worker processes: order, bad files, ends."""

import gc
import multiprocessing
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cplsr.data.decode import decode, over_images
from cplsr.data.domain import Domain, UnreadableImageError
from cplsr.data.preprocess import preprocess
from cplsr.errors import InputError


@dataclass(frozen=True)
class Numbered:
    """Image i is plain grey of value i; some cannot be read."""

    bad: frozenset[int] = frozenset()
    broken: frozenset[int] = frozenset()
    large: frozenset[int] = frozenset()

    def __call__(self, index: int) -> Image.Image:
        if index in self.bad:
            raise UnreadableImageError("torn in two")
        if index in self.broken:
            raise KeyError("a bug")
        if index in self.large:
            raise MemoryError
        return Image.new("L", (8, 8), index)


def domain_of(reader: Numbered, images: int = 23) -> Domain:
    return Domain(
        name="numbers",
        classes=("all",),
        labels=np.zeros(images, dtype=np.int64),
        identities=tuple(f"{number}.png?1" for number in range(images)),
        reader=reader,
    )


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_every_image_once_and_in_order(workers: int) -> None:
    batches = list(decode(domain_of(Numbered()), 6, batch_size=5, workers=workers))
    assert [len(batch.indices) for batch in batches] == [5, 5, 5, 5, 3]
    pixels = torch.cat([batch.pixels for batch in batches])
    assert pixels.dtype == torch.uint8
    assert pixels.shape == (23, 3, 6, 6)
    assert pixels[:, 1, 2, 3].tolist() == np.concatenate([batch.indices for batch in batches]).tolist()
    assert pixels[:, 1, 2, 3].tolist() == list(range(23))
    np.testing.assert_array_equal(pixels[7].numpy(), preprocess(Image.new("L", (8, 8), 7), 6))
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [0, 2])
def test_chosen_images_in_the_order_chosen(workers: int) -> None:
    batches = list(decode(domain_of(Numbered()), 6, indices=[9, 2, 2, 22], batch_size=3, workers=workers))
    assert np.concatenate([batch.indices for batch in batches]).tolist() == [9, 2, 2, 22]
    assert torch.cat([batch.pixels for batch in batches])[:, 0, 0, 0].tolist() == [9, 2, 2, 22]


def test_a_selected_domain_is_decoded_through_its_selection() -> None:
    selected = domain_of(Numbered()).select([20, 3])
    (batch,) = decode(selected, 6)
    assert batch.indices.tolist() == [0, 1]
    assert batch.pixels[:, 0, 0, 0].tolist() == [20, 3]


@pytest.mark.parametrize("workers", [0, 2])
def test_bad_images_are_named_and_left_out(workers: int) -> None:
    bad = frozenset({0, 4, 5, 6, 7})
    batches = list(decode(domain_of(Numbered(bad)), 6, batch_size=4, workers=workers))
    assert [index for batch in batches for index, _ in batch.failed] == sorted(bad)
    assert {reason for batch in batches for _, reason in batch.failed} == {"torn in two"}
    assert batches[1].pixels.shape == (0, 3, 6, 6)
    good = np.concatenate([batch.indices for batch in batches])
    assert good.tolist() == [number for number in range(23) if number not in bad]


@pytest.mark.parametrize("workers", [0, 2])
def test_strict_names_the_first_bad_image(workers: int) -> None:
    with pytest.raises(InputError, match=r"13\.png in numbers cannot be read: torn in two"):
        list(decode(domain_of(Numbered(frozenset({13, 20}))), 6, batch_size=4, workers=workers, strict=True))
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bug_in_a_reader_is_not_taken_for_a_bad_image(workers: int) -> None:
    with pytest.raises(KeyError, match="a bug"):
        list(decode(domain_of(Numbered(broken=frozenset({2}))), 6, batch_size=4, workers=workers))
    assert multiprocessing.active_children() == []


def test_closing_early_ends_the_workers() -> None:
    batches = decode(domain_of(Numbered()), 6, batch_size=2, workers=2)
    next(batches)
    assert len(multiprocessing.active_children()) == 2
    batches.close()
    assert multiprocessing.active_children() == []


def test_dropping_the_iterator_ends_the_workers() -> None:
    batches = decode(domain_of(Numbered()), 6, batch_size=2, workers=2)
    next(batches)
    del batches
    gc.collect()
    assert multiprocessing.active_children() == []


def test_a_consumer_that_raises_leaves_no_workers() -> None:
    def consume() -> None:
        for batch in decode(domain_of(Numbered()), 6, batch_size=2, workers=2):
            raise RuntimeError(str(batch.indices))

    with pytest.raises(RuntimeError, match="0 1"):
        consume()
    gc.collect()
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [0, 2])
def test_torch_random_numbers_are_left_alone(workers: int) -> None:
    before = torch.get_rng_state()
    list(decode(domain_of(Numbered()), 6, batch_size=4, workers=workers))
    assert torch.equal(torch.get_rng_state(), before)


def test_nothing_to_do() -> None:
    assert list(decode(domain_of(Numbered()), 6, indices=[])) == []


@pytest.mark.parametrize(
    "options", [{"image_size": 0}, {"batch_size": 0}, {"workers": -1}, {"indices": [23]}, {"indices": [-1]}]
)
def test_impossible_wishes_are_refused_at_once(options: dict) -> None:
    with pytest.raises(InputError):
        decode(domain_of(Numbered()), **{"image_size": 6, **options})


def test_a_file_that_vanishes_is_a_bad_image(tmp_path: Path) -> None:
    from cplsr.data.folder import open_folder

    for name in ("a.png", "b.png"):
        (tmp_path / "cow").mkdir(exist_ok=True)
        Image.new("L", (4, 4)).save(tmp_path / "cow" / name)
    domain = open_folder(tmp_path)
    (tmp_path / "cow/a.png").unlink()
    (batch,) = decode(domain, 6)
    assert batch.failed == ((0, "no such file"),)
    assert batch.indices.tolist() == [1]


def size_of(image: Image.Image) -> tuple[int, int]:
    return image.size


def test_any_work_can_be_done_over_images() -> None:
    (outcomes,) = over_images(domain_of(Numbered(frozenset({1})), images=3), size_of)
    assert outcomes.done == ((0, (8, 8)), (2, (8, 8)))
    assert outcomes.failed == ((1, "torn in two"),)


def test_workers_end_when_their_parent_is_killed() -> None:
    """They share the parent's standard output, so its end is reached only when all of them have gone."""
    code = (
        "from cplsr.data.decode import decode; from cplsr.data.digits import open_digits\n"
        "import time\n"
        "for batch in decode(open_digits(), 224, workers=2): print(len(batch.indices), flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "64\n"
        parent.kill()
        rest, _ = parent.communicate(timeout=60)
    assert rest == ""


@pytest.mark.parametrize("workers", [0, 1])
def test_too_little_memory_for_one_image_does_not_end_the_others(workers: int) -> None:
    (batch,) = decode(domain_of(Numbered(large=frozenset({1})), images=3), 6, workers=workers)
    assert batch.indices.tolist() == [0, 2]
    assert batch.failed == ((1, "there is too little memory to decode it"),)
