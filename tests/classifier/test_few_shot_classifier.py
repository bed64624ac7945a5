"""The classifier over images: every form of input, growing and shrinking, confidence, explanations."""

import sys
import weakref

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from cplsr.adapters.attach import attach
from cplsr.adapters.store import save_adapter
from cplsr.classifier import embed_pictures
from cplsr.classifier.backbone_choice import sharing_weights
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.classifier.no_class import check_on_error
from cplsr.data.open import open_domain
from cplsr.data.preprocess import preprocess
from cplsr.errors import InputError


@pytest.fixture
def classifier(backbone, support):
    return FewShotClassifier(backbone, workers=0).fit(support)


def test_a_folder_is_enough(classifier, support, query):
    assert classifier.classes_.tolist() == ["blue", "green", "red"]
    assert classifier.counts_.tolist() == [4, 4, 4]
    assert classifier.support_names_[0] == "blue/0.png"
    assert classifier.score(support) == 1.0
    (query / "bad.jpg").unlink()
    (query / "deeper" / "empty.png").unlink()
    answers = classifier.predict(query)
    expected = {
        path: ["blue", "green", "red"][int(path.stem) % 3] for path in query.rglob("*.png") if path.stem != ".hidden"
    }
    assert answers.tolist() == [expected[path] for path in sorted(expected, key=str)]


def test_all_forms_of_images_give_the_same_answer(classifier, support, backbone):
    paths = sorted(support.rglob("*.png"))
    images = [Image.open(path) for path in paths]
    arrays = [np.asarray(image) for image in images]
    pixels = torch.stack([torch.from_numpy(preprocess(image, 32)) for image in images])
    forms = {
        "paths": [str(path) for path in paths],
        "Paths": paths,
        "array of paths": np.array([str(path) for path in paths], dtype=object),
        "PIL": images,
        "arrays": arrays,
        "one array": np.stack(arrays),
        "mixed": [paths[0], *images[1:3], *arrays[3:]],
        "tensor": pixels,
        "tensors": list(pixels),
        "normalized": backbone.normalize(pixels),
        "embeddings": classifier.embed(paths),
        "embedding tensor": torch.from_numpy(classifier.embed(paths)),
        "domain": open_domain(support),
        "folder": support,
    }
    expected = classifier.predict_proba(paths)

    for name, form in forms.items():
        np.testing.assert_allclose(classifier.predict_proba(form), expected, atol=1e-5, err_msg=name)
    labels = [path.parent.name for path in paths]
    for form in (paths, images, pixels, forms["embeddings"]):
        again = FewShotClassifier(backbone, workers=0).fit(form, labels)
        np.testing.assert_allclose(again.head_.prototypes_, classifier.head_.prototypes_, atol=1e-5)


def test_classes_come_and_go(classifier, backbone, support, tmp_path):
    blue_and_red = FewShotClassifier(backbone, workers=0).fit(
        [path for path in sorted(support.rglob("*.png")) if path.parent.name != "green"], ["blue"] * 4 + ["red"] * 4
    )
    whole = classifier.predict_proba(support)

    blue_and_red.add_class("green", support / "green")
    np.testing.assert_allclose(blue_and_red.predict_proba(support), whole, atol=1e-4)
    assert blue_and_red.support_names_[-1].endswith("green/3.png")
    with pytest.raises(InputError, match="'green' already"):
        blue_and_red.add_class("green", support / "green")

    blue_and_red.remove_class("red")
    assert blue_and_red.classes_.tolist() == ["blue", "green"]
    assert len(blue_and_red.support_names_) == 8
    assert not any("red" in name.split("/")[-2] for name in blue_and_red.support_names_)
    blue_and_red.partial_fit([Image.new("RGB", (9, 9), "red")], ["red"])
    assert blue_and_red.counts_.tolist() == [4, 4, 1]


def two_images(support):
    return [support / "red" / "0.png", support / "blue" / "0.png"], ["red", "blue"]


def test_one_image_per_class_and_partial_fit_from_nothing(backbone, support):
    single = FewShotClassifier(backbone, workers=0)
    single.partial_fit([support / "red" / "0.png"], ["red"]).partial_fit([support / "blue" / "0.png"], ["blue"])

    assert single.predict([support / "red" / "1.png", support / "blue" / "1.png"]).tolist() == ["red", "blue"]
    assert single.temperature_ == 12.0
    assert FewShotClassifier(backbone, head="prototypes").fit(*two_images(support)).temperature_ == 20.0
    assert single.evaluate_support().expected is None
    assert "No class has two images" in single.evaluate_support().expectation()


def test_prototypes_have_the_temperature_their_adapter_was_trained_with(backbone, support, tmp_path):
    trained = attach(sharing_weights(backbone), "coalescent")
    folder = save_adapter(trained, tmp_path / "adapter", settings={"temperature": 7.0})
    classifier = FewShotClassifier(backbone, folder, head="prototypes", workers=0).fit(*two_images(support))
    assert classifier.temperature_ == 7.0
    assert classifier.frozen_head().temperature_ == 20.0
    assert FewShotClassifier(backbone, folder, workers=0).fit(*two_images(support)).temperature_ == 12.0
    loaded = FewShotClassifier.load(classifier.save(tmp_path / "model"), backbone=backbone, workers=0)
    assert loaded.add_class("green", [support / "green" / "0.png"]).temperature_ == 7.0


def test_scikit_learn_ways(classifier, backbone, support):
    copy = clone(classifier)
    for ask in (copy.predict, copy.predict_proba, copy.predict_table, copy.embed, copy.out_of_domain_score, copy.score):
        with pytest.raises(NotFittedError):
            ask(support)
    assert copy.get_params()["workers"] == 0
    assert copy.set_params(temperature=5.0).fit(support).temperature_ == 5.0
    paths = sorted(str(path) for path in support.rglob("*.png"))
    labels = [path.split("/")[-2] for path in paths]
    assert cross_val_score(classifier, paths, labels, cv=2).tolist() == [1.0, 1.0]


def test_predictions_answer_for_every_image(classifier, query):
    answers = [answer for batch in classifier.predictions(query, reject_below=0.0) for answer in batch]

    assert [answer.name for answer in answers] == sorted(answer.name for answer in answers)
    errors = {answer.name.rpartition("/")[2]: answer.error for answer in answers if answer.error}
    assert errors == {"bad.jpg": "not an image of a known format", "empty.png": "0 bytes"}
    read = [answer for answer in answers if not answer.error]
    likelihoods = classifier.predict_proba([answer.name for answer in read])
    for answer, row in zip(read, likelihoods, strict=True):
        order = np.argsort(-row)
        assert (answer.label, answer.runner_up) == tuple(classifier.classes_[order[:2]])
        assert (answer.confidence, answer.runner_up_confidence) == pytest.approx(tuple(row[order[:2]]), abs=1e-5)
        assert answer.known is True
        assert 0 <= answer.out_of_domain <= 1
    rejected = next(classifier.predictions([read[0].name], reject_below=1.0))[0]
    assert (rejected.label, rejected.known, rejected.runner_up) == ("unknown", False, read[0].label)
    with pytest.raises(InputError, match="2 of 11 images are like that"):
        classifier.predict(query)


def test_one_bad_file_does_not_end_a_folder(classifier, query):
    table = classifier.predict_table(query, reject_below=0.0)

    assert (len(table), len(table.paths), table[0].name) == (11, 11, table.paths[0])
    assert [row.name.rpartition("/")[2] for row in table if row.error] == ["bad.jpg", "empty.png"]
    read = [row for row in table if not row.error]
    labeled, likelihoods = (
        classifier.predict(query, on_error="label"),
        classifier.predict_proba(query, on_error="label"),
    )
    assert labeled.tolist() == [row.label or "unreadable" for row in table]
    assert np.isnan(likelihoods).all(axis=1).tolist() == [bool(row.error) for row in table]
    with pytest.warns(UserWarning, match="2 of 11 images cannot be read and are skipped, the first is .*bad.jpg"):
        assert classifier.predict(query, on_error="skip").tolist() == [row.label for row in read]
    with pytest.warns(UserWarning, match="are skipped"):
        np.testing.assert_array_equal(
            classifier.predict_proba(query, on_error="skip"), likelihoods[~np.isnan(likelihoods).any(axis=1)]
        )
    with pytest.warns(UserWarning, match="are skipped"):
        assert classifier.predict_table(query, on_error="skip").paths == [row.name for row in read]
    with pytest.raises(InputError, match=r"2 of 11 images .* predict_table\(\)"):
        classifier.predict_table(query, on_error="raise")
    with pytest.raises(InputError, match="on_error='ignore' is not usable: give 'raise', 'skip' or 'label'"):
        check_on_error("ignore", classifier.classes_)


def test_a_folder_of_bad_files_only(classifier, backbone, support, query):
    for file in query.rglob("[0-9].png"):
        file.unlink()
    assert classifier.predict(query, on_error="label").tolist() == ["unreadable"] * 2
    assert classifier.predict_proba(query, on_error="label").shape == (2, 3)
    with pytest.warns(UserWarning, match="2 of 2 images"):
        assert classifier.predict(query, on_error="skip").tolist() == []
    numbered = FewShotClassifier(backbone).fit([str(file) for file in sorted(support.rglob("*.png"))], [0, 1] * 6)
    assert numbered.predict(query, on_error="label").tolist() == ["unreadable"] * 2
    (support / "red").rename(support / "unreadable")
    with pytest.raises(InputError, match="a class is called 'unreadable'"):
        FewShotClassifier(backbone).fit(support).predict(query, on_error="label")


def test_a_table_for_pandas(classifier, query, monkeypatch):
    table = classifier.predict_table(query)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pandas", None)
        with pytest.raises(InputError, match="pip install pandas"):
            table.to_pandas()
    pytest.importorskip("pandas")
    frame = table.to_pandas()
    assert frame["path"].tolist() == table.paths
    assert frame["label"].tolist() == table.labels
    assert frame["confidence"].isna().tolist() == [value is None for value in table.confidences]
    assert [*frame.columns] == ["path", "label", "confidence", "runner_up", "runner_up_confidence", "known", "error"]


def test_memory_does_not_grow_with_the_number_of_images(classifier, monkeypatch):
    classifier.set_params(batch_size=8)
    alive = []
    most = 0
    embed = embed_pictures.embed_pixels

    def watched(backbone, pixels, name):
        nonlocal most
        alive.append(weakref.ref(pixels))
        most = max(most, sum(reference() is not None for reference in alive))
        return embed(backbone, pixels, name)

    monkeypatch.setattr(embed_pictures, "embed_pixels", watched)
    picture = Image.new("RGB", (40, 40), "green")

    count = sum(len(batch) for batch in classifier.predictions([picture] * 160))

    assert count == 160
    assert len(alive) == 20
    assert most <= 2


def test_unreadable_support_images_are_left_out(backbone, support):
    (support / "red" / "bad.png").write_bytes(b"no")

    with pytest.warns(UserWarning, match=r"1 of 13 support images.*red/bad.png"):
        classifier = FewShotClassifier(backbone, workers=0).fit(support)

    assert classifier.counts_.tolist() == [4, 4, 4]
    assert classifier.skipped_ == (("red/bad.png", "not an image of a known format"),)
    before = classifier.support_names_
    with pytest.raises(InputError, match=r"no image of the class black can be read"):
        classifier.add_class("black", [support / "red" / "bad.png"])
    assert classifier.support_names_ == before
    assert classifier.classes_.tolist() == ["blue", "green", "red"]


def test_a_fit_that_fails_leaves_nothing_that_would_answer(classifier, support, query):
    for file in (support / "red").iterdir():
        file.write_bytes(b"no")

    with pytest.raises(InputError, match="no image of the class red can be read"):
        classifier.fit(support)

    for ask in (lambda: classifier.predict(query), lambda: classifier.classes_, classifier.evaluate_support):
        with pytest.raises(NotFittedError):
            ask()
    assert classifier.partial_fit([np.zeros((9, 9, 3), np.uint8)], ["ash"]).classes_.tolist() == ["ash"]


def test_the_adapter_is_compared_with_the_frozen_backbone(backbone, support, adapter_folder):
    frozen = FewShotClassifier(backbone, workers=0).fit(support)
    adapted = FewShotClassifier(backbone, adapter_folder, workers=0).fit(support)

    assert adapted.adapter_kind_ == "coalescent"
    np.testing.assert_allclose(adapted.frozen_head().prototypes_, frozen.head_.prototypes_, atol=1e-5)
    assert not np.allclose(adapted.head_.prototypes_, frozen.head_.prototypes_, atol=1e-3)
    comparison = adapted.evaluate_support().comparison
    assert (comparison.frozen.of, comparison.adapter.of) == (12, 12)
    assert comparison.recommended == "no clear difference"
    assert any("no clear difference" in text for text in adapted.evaluate_support().sentences())
    assert frozen.evaluate_support().comparison is None
    adapted.add_class("grey", [Image.new("RGB", (9, 9), "grey")] * 2)
    assert adapted.evaluate_support().comparison.frozen.of == 14
    adapted.remove_class("red")
    assert adapted.evaluate_support().comparison.frozen.of == 10
    adapted.partial_fit(adapted.embed(support / "red"), ["red"] * 4)  # embeddings say nothing of the frozen backbone
    assert adapted.evaluate_support().comparison is None


def test_explain(classifier, support, backbone):
    path = support / "green" / "2.png"

    explanation = classifier.explain(path, neighbors=3)

    assert explanation.label == "green"
    assert explanation.confidence == pytest.approx(classifier.predict_proba([path]).max())
    assert explanation.neighbors[0].name == "green/2.png"
    assert explanation.neighbors[0].cosine == pytest.approx(1.0)
    vectors = classifier.embed(support)
    x = classifier.embed([path])[0]
    cosines = sorted((float(v @ x / np.linalg.norm(v) / np.linalg.norm(x)) for v in vectors), reverse=True)
    assert [neighbor.cosine for neighbor in explanation.neighbors] == pytest.approx(cosines[:3], abs=1e-5)
    pixels = torch.from_numpy(preprocess(Image.open(path), 32))[None]
    maps = backbone.attention_maps(pixels)[0]
    expected = [[float(maps[:, 0, 1 + 4 * row + column].mean()) for column in range(4)] for row in range(4)]
    np.testing.assert_allclose(explanation.attention, expected, atol=1e-6)
    assert explanation.overlay.size == (32, 32)
    assert np.asarray(explanation.overlay)[..., 0].mean() > pixels[0, 0].float().mean()  # redder than it was
    normalized = classifier.explain(backbone.normalize(pixels))
    np.testing.assert_allclose(np.asarray(normalized.overlay), np.asarray(explanation.overlay), atol=1)
    with pytest.raises(InputError, match="an embedding was given"):
        classifier.explain(vectors[:1])
    with pytest.raises(InputError, match="12 images was given where one"):
        classifier.explain(support)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], "there are no images"),
        (7, "given as int"),
        (np.zeros((3, 5)), "embeddings of 5 numbers"),
        (np.full((1, 64), np.nan), "nan or infinity"),
        (np.zeros((2, 3), dtype=int), r"array of shape \(2, 3\)"),
        ([np.zeros((4, 4, 3))], "image 0 is a float64 array"),
        ([object()], "image 0 is a object"),
        (torch.zeros(2, 4, 32, 32), "tensor of shape"),
        (torch.zeros(2, 3, 16, 16), "16 x 16 pixels"),
        ([torch.zeros(3, 32, 32), torch.zeros(3, 16, 16)], "differ in shape"),
        ("no/such/folder", "does not exist"),
    ],
)
def test_bad_images_are_one_sentence(classifier, images, message):
    with pytest.raises(InputError, match=message):
        classifier.predict(images)


def test_bad_labels_are_one_sentence(backbone, support):
    with pytest.raises(InputError, match="without labels"):
        FewShotClassifier(backbone).fit([support / "red" / "0.png"])
    with pytest.raises(InputError, match="one label each"):
        FewShotClassifier(backbone).fit([support / "red" / "0.png"], ["red", "blue"])
