"""A classifier on disk is the same classifier, and a damaged one is a sentence."""

import hashlib
import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from cplsr.backbones.load import load_backbone
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.episodes.heads.prototypes import Prototypes
from cplsr.errors import InputError


@pytest.fixture
def saved(backbone, support, adapter_folder, tmp_path):
    classifier = FewShotClassifier(backbone, adapter_folder, workers=0).fit(support)
    classifier.save(tmp_path / "model")
    return classifier, tmp_path / "model"


def test_what_is_loaded_answers_the_same(saved, support):
    classifier, folder = saved

    loaded = FewShotClassifier.load(folder, workers=0)

    np.testing.assert_array_equal(loaded.predict_proba(support), classifier.predict_proba(support))
    np.testing.assert_array_equal(loaded.out_of_domain_score(support), classifier.out_of_domain_score(support))
    assert loaded.fingerprint == classifier.fingerprint
    assert loaded.evaluate_support() == classifier.evaluate_support()
    assert (
        loaded.explain(support / "red" / "0.png").neighbors == classifier.explain(support / "red" / "0.png").neighbors
    )
    assert sorted(file.name for file in folder.iterdir()) == ["adapter", "classifier.json", "classifier.safetensors"]
    loaded.add_class("again", support / "red")
    loaded.save(folder)
    assert FewShotClassifier.load(folder).classes_.tolist() == ["again", "blue", "green", "red"]


@pytest.mark.parametrize("labels", [["b", "a", "é\n"], [3, 1, 2], [0.0, 2.0, 1.0], [True, False, True]])
def test_labels_keep_their_kind(backbone, tmp_path, labels):
    vectors = np.random.default_rng(0).normal(size=(3, 64))
    head = Prototypes("mean_of_normalized")
    classifier = FewShotClassifier(backbone, temperature=11.0, head=head).fit(vectors, labels)

    loaded = FewShotClassifier.load(classifier.save(tmp_path / "model"))

    assert loaded.classes_.tolist() == sorted(set(labels))
    assert loaded.classes_.dtype.kind == classifier.classes_.dtype.kind
    np.testing.assert_array_equal(loaded.predict_proba(vectors), classifier.predict_proba(vectors))
    assert (loaded.temperature, loaded.head) == (11.0, head)


def test_the_embedded_backbone_is_found_again(support, tmp_path):
    classifier = FewShotClassifier("embedded", "frozen", workers=0).fit(support)
    folder = classifier.save(tmp_path / "model")

    np.testing.assert_array_equal(
        FewShotClassifier.load(folder, workers=0).predict_proba(support), classifier.predict_proba(support)
    )


def test_depth_and_its_blocks_are_read_again(checkpoint_file, support, adapter_folder, tmp_path):
    backbone = load_backbone(checkpoint_file, heads=2, pooling="depth", layers=(1,))
    classifier = FewShotClassifier(backbone, adapter_folder, workers=0).fit(support)
    folder = classifier.save(tmp_path / "model")

    loaded = FewShotClassifier.load(folder, workers=0)

    assert loaded.embed(support).shape == (12, 128)
    np.testing.assert_array_equal(loaded.predict_proba(support), classifier.predict_proba(support))
    assert loaded.fingerprint == classifier.fingerprint
    with pytest.raises(InputError, match=r"fitted with layers \(1,\), but the backbone given has \(0, 1\)"):
        FewShotClassifier.load(folder, backbone=load_backbone(checkpoint_file, heads=2, pooling="depth"))


def test_a_backbone_that_moved(saved, checkpoint_file, support, tmp_path):
    classifier, folder = saved
    moved = checkpoint_file.rename(tmp_path / "elsewhere.safetensors")

    with pytest.raises(InputError, match=r"not where it was .*\(--backbone\)"):
        FewShotClassifier.load(folder)
    colors = {"mean": classifier.backbone_.mean, "std": classifier.backbone_.std}
    for given in (moved, load_backbone(moved, heads=2, **colors)):
        loaded = FewShotClassifier.load(folder, backbone=given, workers=0)
        np.testing.assert_array_equal(loaded.predict_proba(support), classifier.predict_proba(support))
    with pytest.raises(InputError, match="weights are not those"):
        FewShotClassifier.load(folder, backbone="embedded")
    with pytest.raises(InputError, match="image_size 32"):
        FewShotClassifier.load(folder, backbone=load_backbone(moved, 48, heads=2, **colors))
    other = load_backbone(moved, heads=2, mean=(0.4, 0.4, 0.4), std=(0.2, 0.2, 0.2))
    with pytest.raises(InputError, match="fitted with mean"):
        FewShotClassifier.load(folder, backbone=other)


def test_damage_is_noticed(saved, tmp_path):
    _, folder = saved
    description = json.loads((folder / "classifier.json").read_text(encoding="utf-8"))
    with pytest.raises(InputError, match="no saved classifier"):
        FewShotClassifier.load(tmp_path)
    tensors = (folder / "classifier.safetensors").read_bytes()
    (folder / "classifier.safetensors").write_bytes(tensors[:-1] + b"x")
    with pytest.raises(InputError, match="not the file that"):
        FewShotClassifier.load(folder)
    (folder / "classifier.safetensors").write_bytes(tensors)
    for change, message in (({"format": 9}, "update cplsr"), ({"classes": ["one"]}, "damaged")):
        (folder / "classifier.json").write_text(json.dumps(description | change))
        with pytest.raises(InputError, match=message):
            FewShotClassifier.load(folder)
    (folder / "classifier.json").write_text("{")
    with pytest.raises(InputError, match="damaged"):
        FewShotClassifier.load(folder)


def test_nothing_else_is_overwritten(saved, tmp_path, monkeypatch):
    classifier, folder = saved
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="not overwritten"):
        classifier.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    before = {file: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr("cplsr.classifier.store.save_adapter", fail)
    with pytest.raises(OSError, match="disk full"):
        classifier.remove_class("red").save(folder)
    assert {file: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before


def test_there_is_no_pickle(saved):
    _, folder = saved
    for file in folder.rglob("*"):
        assert file.suffix in ("", ".json", ".safetensors")


def test_a_classifier_of_the_first_format_opens_as_the_papers(backbone, support, tmp_path):
    fitted = FewShotClassifier(backbone, head="prototypes", workers=0).fit(support)
    folder = fitted.save(tmp_path / "model")
    tensors = load_file(folder / "classifier.safetensors")
    sums = np.zeros((3, tensors["support"].shape[1]))
    np.add.at(sums, tensors["support_labels"], tensors["support"].astype(np.float64))
    save_file(tensors | {"prototype_sums": sums}, folder / "classifier.safetensors")
    info = json.loads((folder / "classifier.json").read_text())
    digest = hashlib.sha256((folder / "classifier.safetensors").read_bytes()).hexdigest()
    info |= {"format": 1, "settings": {"temperature": "auto", "prototype": "mean"}, "sha256": digest}
    del info["choice"]
    (folder / "classifier.json").write_text(json.dumps(info))

    loaded = FewShotClassifier.load(folder)

    np.testing.assert_allclose(loaded.predict_proba(support), fitted.predict_proba(support), atol=1e-9)
    assert loaded.head_.choice_.head == Prototypes()
    loaded.add_class("grey", [np.full((9, 9, 3), 99, np.uint8)])
    assert loaded.classes_.tolist() == ["blue", "green", "grey", "red"]


def test_a_choice_from_before_anything_was_favored_or_tilted_opens_as_it_was(support, tmp_path):
    folder = FewShotClassifier("embedded", "frozen", workers=0).fit(support).save(tmp_path / "model")
    info = json.loads((folder / "classifier.json").read_text())
    del info["choice"]["favor"], info["choice"]["tilt"]
    info["choice"]["decay"] = 0.6
    (folder / "classifier.json").write_text(json.dumps(info))

    head = FewShotClassifier.load(folder, workers=0).head_

    expected = 0.6 ** np.arange(head.parts // 2 - 1, -1, -1).repeat(2)
    np.testing.assert_allclose(head.scale_[:: head.n_features_in_ // head.parts] ** 2, expected / expected.sum())
