import dataclasses
import json

import numpy as np
import pytest

from cplsr.episodes.manifest import EpisodeManifest
from cplsr.episodes.sampling import EpisodeSampler
from cplsr.errors import InputError

LABELS = np.arange(80) % 8
IDENTITIES = [f"class {i % 8}/picture ü{i}.jpg" for i in range(80)]


def make_manifest(**options):
    return EpisodeManifest.of(EpisodeSampler(LABELS, way=4, shot=2, query=3, seed=11, **options), 7, IDENTITIES)


@pytest.fixture
def manifest():
    return make_manifest()


@pytest.mark.parametrize("groups", [None, np.arange(80) // 2, [f"patient {i // 2}" for i in range(80)]])
def test_written_and_read_gives_the_same_episodes(tmp_path, groups):
    path = tmp_path / "episodes.json"
    written = make_manifest(groups=groups)
    written.write(path)

    read = EpisodeManifest.read(path)

    assert read == written
    expected = EpisodeSampler(LABELS, way=4, shot=2, query=3, seed=11, groups=groups).draw(7)
    np.testing.assert_array_equal(read.episodes().support, expected.support)
    np.testing.assert_array_equal(read.episodes().query, expected.query)


def test_the_file_names_seed_parameters_and_images(tmp_path, manifest):
    path = tmp_path / "episodes.json"
    manifest.write(path)

    content = json.loads(path.read_text(encoding="utf-8"))

    assert [content[name] for name in ("way", "shot", "query", "count", "seed")] == [4, 2, 3, 7, 11]
    assert content["identities"] == IDENTITIES
    assert content["labels"] == LABELS.tolist()


def test_episodes_are_found_among_images_in_another_order(manifest):
    order = np.random.default_rng(0).permutation(80)
    shuffled = ["something else", *(IDENTITIES[i] for i in order)]

    there, here = manifest.episodes(shuffled), manifest.episodes()

    names_there = [shuffled[i] for i in there.query.ravel()]
    assert names_there == [IDENTITIES[i] for i in here.query.ravel()]


def test_uneven_queries_are_drawn_again_too(tmp_path):
    manifest = make_manifest(queries="dirichlet")
    manifest.write(tmp_path / "episodes.json")

    read = EpisodeManifest.read(tmp_path / "episodes.json")

    there, here = read.episodes(IDENTITIES[::-1]), manifest.episodes()
    np.testing.assert_array_equal(79 - there.query, here.query)
    np.testing.assert_array_equal(there.targets, here.targets)
    with pytest.raises(InputError, match="differ"):
        dataclasses.replace(read, queries="balanced").episodes()


def test_a_manifest_from_before_there_were_uneven_queries_is_read(tmp_path, manifest):
    manifest.write(tmp_path / "episodes.json")
    content = json.loads((tmp_path / "episodes.json").read_text(encoding="utf-8"))
    del content["queries"]
    (tmp_path / "episodes.json").write_text(json.dumps(content), encoding="utf-8")

    assert EpisodeManifest.read(tmp_path / "episodes.json") == manifest


def test_missing_images_are_named(manifest):
    with pytest.raises(InputError, match=r"1 of the manifest's 80 .*picture ü0"):
        manifest.episodes(IDENTITIES[1:])


def test_a_changed_manifest_is_noticed(manifest):
    changed = dataclasses.replace(manifest, seed=12)

    with pytest.raises(InputError, match="differ"):
        changed.episodes()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "cplsr episodes 1"}', '{"format": "other"}', "{", "\x00"])
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "file.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(InputError, match="manifest"):
        EpisodeManifest.read(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        EpisodeManifest.read(tmp_path / "none.json")


def test_what_json_would_change_is_refused():
    with pytest.raises(InputError, match=r"not 0\.5"):
        EpisodeManifest.of(EpisodeSampler(np.array([0.5] * 20), way=1), 1, ["x"] * 20)


def test_labels_and_identities_must_match():
    with pytest.raises(InputError, match="80 labels and 79 identities"):
        EpisodeManifest.of(EpisodeSampler(LABELS, way=4, shot=2, query=3), 1, IDENTITIES[1:])
