"""Vectors on disk: the same files whoever makes them, however often somebody is killed, and in place of images."""

import io
import json
import os
import sys
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from oracles.color_folders import color_folders
from oracles.elsewhere import Loader, end_always, squared_or_killed

from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.data.open import open_domain
from cplsr.data.parts import open_parts, parts_of
from cplsr.data.query_files import open_queries, unlabeled_parts
from cplsr.data.vectors import VectorShard, open_vectors, shard_files
from cplsr.engines import in_processes, on_ray, ray_cluster
from cplsr.errors import InputError
from cplsr.evaluation import shards
from cplsr.evaluation.embed import embed_domain
from cplsr.evaluation.evaluate import evaluate
from cplsr.evaluation.shards import embed_to_folder
from cplsr.settings.engine import ClusterSettings, ShardingSettings
from cplsr.settings.episodes import EpisodeSettings

SETTINGS = ShardingSettings(processes=1, shard_images=10, batch_size=4)


@pytest.fixture
def images(tmp_path):
    """36 images of six classes, one of them damaged, and a file that is no image."""
    root = color_folders(tmp_path / "data", ("colors",), prefix="class ", colors=(60, 190), key=3) / "colors"
    (root / "class 2" / "3.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    (root / "class 4" / "notes.txt").write_text("no image")
    return root


@pytest.fixture
def load(checkpoint_file):
    return Loader(checkpoint_file)


def files_of(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def bit_equal(one, other):
    return files_of(one) == files_of(other)


@pytest.fixture
def vectors(images, load, tmp_path):
    embed_to_folder([open_parts(images)], load, tmp_path / "vectors", SETTINGS)
    return tmp_path / "vectors"


@pytest.mark.filterwarnings("ignore:1 of 36 images")
def test_vectors_are_the_domain_they_were_made_of(images, load, vectors):
    domain, stored = open_domain(images), open_domain(vectors)
    assert stored.fingerprint == domain.fingerprint
    assert (stored.classes, stored.skipped) == (domain.classes, domain.skipped)
    wanted = embed_domain(load(), domain, workers=0, batch_size=4)
    found = embed_domain(load(), stored)
    assert found.failed == wanted.failed
    assert found.new == 0
    np.testing.assert_array_equal(found.indices, wanted.indices)
    np.testing.assert_allclose(found.vectors, wanted.vectors, atol=1e-5)  # other batches, other last digits
    some = np.array([30, 2, 16, 11])
    np.testing.assert_array_equal(embed_domain(load(), stored.select(some)).vectors, found.vectors[[29, 2, 15, 11]])


@pytest.mark.filterwarnings("ignore:1 of 36")
def test_evaluate_and_the_classifier_answer_on_vectors_as_on_images(images, load, vectors):
    settings = EpisodeSettings(way=3, shots=(1,), query=2, episodes=20)
    on = [evaluate(load(), {"T": open_domain(source)}, settings=settings) for source in (images, vectors)]
    assert on[0].rows == on[1].rows
    classifier = FewShotClassifier(load(), "frozen").fit(str(vectors))
    from_images, from_vectors = (
        [answer for batch in classifier.predictions(source) for answer in batch]
        for source in (open_domain(images), open_queries(vectors))
    )
    assert [(a.name, a.label, a.error) for a in from_images] == [(a.name, a.label, a.error) for a in from_vectors]
    assert sum(bool(answer.error) for answer in from_vectors) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [({"pooling": "mean"}, "pooling cls where mean is wanted"), ({"adapter": True}, "adapter frozen where")],
)
def test_vectors_of_another_model_are_refused_with_what_differs(vectors, load, change, said):
    other = replace(load, **change)()
    with pytest.raises(InputError, match=said):
        embed_domain(other, open_vectors(vectors))
    with pytest.raises(InputError, match=said):
        FewShotClassifier(other).fit(open_vectors(vectors))
    with pytest.raises(InputError, match=said):
        embed_to_folder([], replace(load, **change), vectors, SETTINGS)


def test_vectors_of_another_backbone_are_refused(vectors, load, tmp_path):
    from oracles.random_vit import random_checkpoint
    from safetensors.torch import save_file

    save_file(random_checkpoint(dim=64, layers=1, patch=8, image=32), tmp_path / "other.safetensors")
    with pytest.raises(InputError, match=r"backbone '.*vit_random.* where '.*other.safetensors' is wanted"):
        embed_domain(Loader(tmp_path / "other.safetensors")(), open_vectors(vectors))


def test_what_is_whole_is_kept_and_what_is_damaged_or_changed_is_made_again(images, load, vectors, monkeypatch):
    before = files_of(vectors)
    made = []
    embed = shards._embed
    monkeypatch.setattr(shards, "_embed", lambda *given: made.append(given[2].number) or embed(*given))
    assert embed_to_folder([open_parts(images)], load, vectors, SETTINGS)[1] == 0
    assert made == []
    damaged = shard_files(vectors)[1]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x7f")
    with pytest.raises(InputError, match="missing or damaged: run the same"):
        VectorShard.read(damaged)
    shard_files(vectors)[2].unlink()
    assert embed_to_folder([open_parts(images)], load, vectors, SETTINGS)[1] == 20
    assert made == [1, 2]
    assert files_of(vectors) == before
    (images / "class 5" / "5.png").unlink()
    embed_to_folder([open_parts(images)], load, vectors, SETTINGS)
    assert made == [1, 2, 3]
    assert open_vectors(vectors).fingerprint == open_domain(images).fingerprint


def test_a_killed_driver_leaves_an_unfinished_folder_that_the_same_call_finishes(
    images, load, vectors, tmp_path, monkeypatch
):
    class KilledError(BaseException):
        pass

    embed = shards.embed_shard
    out = tmp_path / "killed"

    def dies(job):
        if job.number == 2:
            raise KilledError
        return embed(job)

    monkeypatch.setattr(shards, "embed_shard", dies)
    with pytest.raises(KilledError):
        embed_to_folder([open_parts(images)], load, out, SETTINGS)
    with pytest.raises(InputError, match="unfinished: run the same"):
        open_domain(out)
    monkeypatch.setattr(shards, "embed_shard", embed)
    assert embed_to_folder([open_parts(images)], load, out, SETTINGS)[1] == 16
    assert bit_equal(out, vectors)


def test_two_processes_write_the_same_files(images, load, vectors, tmp_path):
    embed_to_folder([open_parts(images)], load, tmp_path / "two", replace(SETTINGS, processes=2))
    assert bit_equal(tmp_path / "two", vectors)


def test_ray_with_a_killed_worker_writes_the_same_files(images, load, vectors, tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # workers of ray find what pytest found
    marker = tmp_path / "kill"
    marker.write_text(str(os.getpid()))
    out = tmp_path / "ray"
    settings = replace(SETTINGS, engine="ray", processes=2)
    embed_to_folder([open_parts(images)], replace(load, kills=marker), out, settings)
    assert not marker.exists()
    assert bit_equal(out, vectors)


def test_what_a_killed_process_worked_on_is_done_by_another(tmp_path):
    marker = tmp_path / "kill"
    marker.write_text(str(os.getpid()))
    ended = list(in_processes(squared_or_killed, ((number, marker) for number in range(9)), 2))
    assert not marker.exists()
    assert sorted(each.result for each in ended) == [number**2 for number in range(9)]


def test_work_that_always_kills_its_process_is_a_sentence():
    with pytest.raises(InputError, match="3 times in a row a process was ended"):
        list(in_processes(end_always, [1], 1))


def test_other_settings_strange_folders_and_strict_are_sentences(images, load, vectors, tmp_path):
    with pytest.raises(InputError, match="made with --shard-images 10, not 7"):
        embed_to_folder([open_parts(images)], load, vectors, replace(SETTINGS, shard_images=7))
    with pytest.raises(InputError, match="holds something else already"):
        embed_to_folder([open_parts(images)], load, images, SETTINGS)
    with pytest.raises(InputError, match=r"class 2/3.png in colors cannot be read"):
        embed_to_folder([open_parts(images)], load, tmp_path / "strict", replace(SETTINGS, strict=True))


def add(tar, name, content):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


@pytest.fixture
def tars(images, tmp_path):
    """The same images as two tar files: labels as .cls in one and as .json in the other, one image without."""
    folder = tmp_path / "tars"
    folder.mkdir()
    for number, classes in enumerate(([0, 1, 2], [3, 4, 5])):
        with tarfile.open(folder / f"part-{number}.tar", "w") as tar:
            for label in classes:
                for file in sorted((images / f"class {label}").glob("*.png")):
                    key = f"{label}-{file.stem}"
                    add(tar, f"{key}.png", file.read_bytes())
                    if number == 0:
                        add(tar, f"{key}.cls", f"{label}\n".encode())
                    else:
                        add(tar, f"{key}.json", json.dumps({"label": label, "text": "x"}).encode())
            if number == 1:
                add(tar, "lonely.png", b"x")
    return folder


@pytest.mark.filterwarnings("ignore:1 of 36 images")
def test_tar_files_are_a_domain_and_are_embedded_like_the_files_in_them(images, tars, load, vectors, tmp_path):
    domain = open_domain(tars)
    assert domain.classes == ("0", "1", "2", "3", "4", "5")
    assert domain.labels.tolist() == open_domain(images).labels.tolist()
    assert domain.skipped == (("part-1.tar/lonely.png", "no label beside it, as .cls or in .json"),)
    assert domain.image_name(0) == "part-0.tar/0-0.png"
    embed_to_folder([open_parts(tars)], load, tmp_path / "out", SETTINGS)
    stored = open_vectors(tmp_path / "out")
    assert (stored.fingerprint, stored.skipped) == (domain.fingerprint, domain.skipped)
    ours, theirs = (embed_domain(load(), each).vectors for each in (stored, open_vectors(vectors)))
    np.testing.assert_array_equal(ours, theirs)
    assert open_domain(tars / "part-1.tar").classes == ("3", "4", "5")


def test_a_compressed_or_unlabeled_tar_is_a_sentence(tars, tmp_path):
    with tarfile.open(tmp_path / "bad.tar", "w:gz") as tar:
        add(tar, "a.png", b"x")
    with pytest.raises(InputError, match="damaged, or compressed"):
        open_domain(tmp_path / "bad.tar")
    with tarfile.open(tmp_path / "plain.tar", "w") as tar:
        add(tar, "a.png", b"x")
    with pytest.raises(InputError, match="no image with a label"):
        open_parts(tmp_path / "plain.tar")


def test_tables_several_sources_and_unlabeled_images_keep_their_order_and_labels(images, load, tmp_path):
    names = [f"class {label}/{number}.png" for number in range(6) for label in (5, 0)]
    lines = "".join(f"{name},{name[:7]},{number // 2}\n" for number, name in enumerate(names))
    table = images / "list.csv"
    table.write_text(f"path,label,group\n{lines}gone.png,class 0,9\n")
    embed_to_folder([open_parts(table)], load, tmp_path / "a", SETTINGS)
    stored, listed = open_vectors(tmp_path / "a"), open_domain(table)
    assert stored.fingerprint == listed.fingerprint
    assert stored.groups.tolist() == listed.groups.tolist()
    assert stored.skipped == (("gone.png", "No such file or directory"),)
    table.unlink()
    digits = open_domain("digits").select(range(5))
    embed_to_folder([open_parts(images), parts_of(digits)], load, tmp_path / "b", SETTINGS)
    both = open_vectors(tmp_path / "b")
    assert (len(both), both.counts()["0"], both.counts()["class 0"]) == (41, 1, 6)
    embed_to_folder([unlabeled_parts(images)], load, tmp_path / "c", SETTINGS)
    queries, unlabeled = open_queries(images), open_vectors(tmp_path / "c")
    assert (unlabeled.identities, unlabeled.skipped) == (queries.identities, queries.skipped)


def test_what_is_passed_over_is_told_once_however_many_shards_there_are(images, load, tmp_path):
    domain = open_domain(images)
    assert len(domain.skipped) == 1
    info, _ = embed_to_folder([parts_of(domain)], load, tmp_path / "out", SETTINGS)
    assert info.shards == 4
    assert open_vectors(tmp_path / "out").skipped == domain.skipped
    assert all(VectorShard.read(file).skipped == () for file in shard_files(tmp_path / "out"))


def test_ray_whose_workers_die_every_time_is_a_sentence_and_a_number_it_cannot_heed_is_told():
    ray = pytest.importorskip("ray")
    settings = ClusterSettings()
    said = "2 workers were asked for, but a cluster that runs already"
    with ray_cluster(settings, 1, 1), pytest.warns(UserWarning, match=said), ray_cluster(settings, 2, 1):
        (ended,) = on_ray(lambda code: os._exit(code), [1], cpus=1, attempts=1)
    assert not ray.is_initialized()
    assert isinstance(ended.error, InputError)
    assert "a worker of ray was ended from outside" in str(ended.error)
