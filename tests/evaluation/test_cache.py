import dataclasses
import multiprocessing
import os
import threading

import numpy as np
import pytest

from cplsr.evaluation.cache import EmbeddingCache, EmbeddingKey

KEY = EmbeddingKey(
    backbone="b" * 8,
    adapter="frozen",
    image_size=16,
    pooling="cls",
    position_interpolation="none",
    precision="fp32",
    mean=(0.5, 0.5, 0.5),
    std=(0.5, 0.5, 0.5),
    source="tiny",
)
NAMES = [f"class/picture ü {i}.jpg?{i}" for i in range(20)]
VECTORS = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)


@pytest.fixture
def cache(tmp_path):
    return EmbeddingCache(tmp_path / "embeddings")


def shards(cache, key=KEY):
    return sorted((cache.folder / key.folder_name).glob("*.safetensors"))


def test_an_empty_cache_knows_nothing(cache):
    known, _ = cache.read(KEY, NAMES, 8)

    assert not known.any()
    assert cache.contents() == []


def test_what_was_written_is_read_in_any_order(cache):
    cache.write(KEY, NAMES[:12], VECTORS[:12])
    cache.write(KEY, NAMES[12:15], VECTORS[12:15])
    order = np.random.default_rng(1).permutation(20)

    known, vectors = cache.read(KEY, [NAMES[i] for i in order], 8)

    np.testing.assert_array_equal(known, order < 15)
    np.testing.assert_array_equal(vectors[known], VECTORS[order[known]])


def test_an_image_listed_twice_is_found_twice(cache):
    cache.write(KEY, NAMES[:2], VECTORS[:2])

    known, vectors = cache.read(KEY, [NAMES[1], NAMES[0], NAMES[1], NAMES[5]], 8)

    assert known.tolist() == [True, True, True, False]
    np.testing.assert_array_equal(vectors[:3], VECTORS[[1, 0, 1]])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("backbone", "c" * 8),
        ("adapter", "d" * 8),
        ("image_size", 32),
        ("pooling", "mean"),
        ("pooled_layers", (0, 3)),
        ("position_interpolation", "bicubic"),
        ("precision", "bf16"),
        ("mean", (0.4, 0.5, 0.5)),
        ("std", (0.4, 0.5, 0.5)),
    ],
)
def test_another_model_shares_nothing(cache, field, value):
    cache.write(KEY, NAMES, VECTORS)

    known, _ = cache.read(dataclasses.replace(KEY, **{field: value}), NAMES, 8)

    assert not known.any()


def test_keys_from_before_depth_pooling_still_name_the_same_folder():
    assert KEY.folder_name == "94e660f7bbfcf755fea9647ec74a5c06"


def test_depth_embeddings_take_half_the_bytes(cache):
    key = dataclasses.replace(KEY, pooling="depth", pooled_layers=(0, 1))
    rounded = VECTORS.astype(np.float16).astype(np.float32)
    for each, vectors in ((KEY, VECTORS), (key, rounded)):
        cache.write(each, NAMES, vectors)

    known, vectors = cache.read(key, NAMES, 8)

    assert known.all()
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, rounded)
    sizes = [shards(cache, each)[0].stat().st_size for each in (KEY, key)]
    assert sizes[0] - sizes[1] == pytest.approx(20 * 8 * 2, abs=8)  # the header names the formats


def test_a_backbone_at_another_path_shares_everything(cache):
    cache.write(KEY, NAMES, VECTORS)

    known, _ = cache.read(dataclasses.replace(KEY, source="moved"), NAMES, 8)

    assert known.all()


def flip_a_bit(file):
    content = bytearray(file.read_bytes())
    content[-7] ^= 4
    file.write_bytes(content)


def truncate(file):
    file.write_bytes(file.read_bytes()[:-20])


def empty(file):
    file.write_bytes(b"")


def replace_by_text(file):
    file.write_text("not embeddings at all", encoding="utf-8")


@pytest.mark.parametrize("damage", [flip_a_bit, truncate, empty, replace_by_text])
def test_a_damaged_file_is_noticed_removed_and_rebuilt(cache, damage):
    cache.write(KEY, NAMES[:10], VECTORS[:10])
    (good,) = shards(cache)
    cache.write(KEY, NAMES[10:], VECTORS[10:])
    (bad,) = set(shards(cache)) - {good}
    damage(bad)

    with pytest.warns(UserWarning, match="damaged"):
        known, vectors = cache.read(KEY, NAMES, 8)

    assert known.tolist() == [True] * 10 + [False] * 10
    np.testing.assert_array_equal(vectors[:10], VECTORS[:10])
    assert shards(cache) == [good]
    cache.write(KEY, NAMES[10:], VECTORS[10:])
    assert cache.read(KEY, NAMES, 8)[0].all()


def test_embeddings_of_another_width_are_not_used(cache):
    cache.write(KEY, NAMES, VECTORS)

    with pytest.warns(UserWarning, match="damaged"):
        assert not cache.read(KEY, NAMES, 9)[0].any()


def test_an_unfinished_file_is_not_looked_at(cache):
    cache.write(KEY, NAMES, VECTORS)
    (file,) = shards(cache)
    file.with_name(f".{file.name}.1-2.partial").write_bytes(b"half")

    assert cache.read(KEY, NAMES, 8)[0].all()
    assert cache.contents()[0].files == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path):
    tmp_path.chmod(0o500)

    with pytest.warns(UserWarning, match="could not be kept"):
        EmbeddingCache(tmp_path / "embeddings").write(KEY, NAMES, VECTORS)


def test_a_folder_that_cannot_be_made_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")

    with pytest.warns(UserWarning, match="could not be kept"):
        EmbeddingCache(tmp_path / "file").write(KEY, NAMES, VECTORS)


def write_slices(folder, start):
    cache = EmbeddingCache(folder)
    for first in range(start, 20, 2):
        cache.write(KEY, NAMES[first : first + 3], VECTORS[first : first + 3])


def test_two_processes_write_at_once(cache):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=write_slices, args=(cache.folder, start)) for start in (0, 1)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)

    known, vectors = cache.read(KEY, NAMES, 8)

    assert [process.exitcode for process in processes] == [0, 0]
    assert known.all()
    np.testing.assert_array_equal(vectors, VECTORS)


@pytest.mark.filterwarnings("ignore:embeddings could not be kept")
def test_clearing_while_another_reads_and_writes_is_safe(cache):
    stop = threading.Event()

    def clear_again_and_again():
        while not stop.is_set():
            cache.clear()

    thread = threading.Thread(target=clear_again_and_again)
    thread.start()
    try:
        for _ in range(20):
            cache.write(KEY, NAMES, VECTORS)
            known, vectors = cache.read(KEY, NAMES, 8)
            np.testing.assert_array_equal(vectors[known], VECTORS[known])
    finally:
        stop.set()
        thread.join()


def test_contents_and_clear(cache):
    other = dataclasses.replace(KEY, adapter="a" * 8)
    cache.write(KEY, NAMES, VECTORS)
    cache.write(KEY, NAMES[:5], VECTORS[:5])
    cache.write(other, NAMES[:3], VECTORS[:3])

    models = {model.settings["adapter"]: model for model in cache.contents()}

    assert (models["frozen"].images, models["frozen"].files) == (20, 2)
    assert models["a" * 8].images == 3
    assert cache.clear() == sum(model.bytes for model in models.values()) > 0
    assert cache.contents() == []
    assert not cache.read(KEY, NAMES, 8)[0].any()


def test_damaged_settings_of_a_model_are_as_good_as_none(tmp_path):
    cache = EmbeddingCache(tmp_path)
    cache.write(KEY, ["a"], VECTORS[:1])
    (settings,) = tmp_path.glob("*/*.json")
    settings.write_text('{"source": "\\ud800"}')
    assert [model.settings for model in cache.contents()] == [{}]
