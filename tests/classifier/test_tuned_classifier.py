"""A classifier tuned on its support images: once, honestly judged, stored, and not at one image per class."""

import numpy as np
import pytest
import torch

from cplsr.adapters.attach import adapter_of
from cplsr.classifier.comparison import compare_methods
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.errors import InputError
from cplsr.export.to_onnx import export_onnx, head_of
from cplsr.export.to_transformers import export_transformers

QUICK = {"steps": 2, "lr": 3e-2}


def made(backbone, support, adapter="frozen", **options):
    return FewShotClassifier(backbone, adapter, workers=0, **{"tune_on_support": QUICK, **options}).fit(support)


@pytest.mark.parametrize("with_adapter", [False, True])
@pytest.mark.parametrize("tokens", ["class_token", "both"])
def test_it_is_stored_and_answers_the_same(backbone, support, adapter_folder, tmp_path, with_adapter, tokens):
    weights = backbone.weights_fingerprint()
    adapter = adapter_folder if with_adapter else "frozen"
    plain = made(backbone, support, adapter, tune_on_support=False)
    tuned = made(backbone, support, adapter, tune_on_support={**QUICK, "tokens": tokens, "registers": 2})
    assert not np.allclose(tuned.embed(support), plain.embed(support), atol=1e-3)
    np.testing.assert_allclose(tuned.frozen_support_, plain.head_.support_, atol=1e-6)
    assert (backbone.adapter, backbone.weights_fingerprint()) == (None, weights)

    loaded = FewShotClassifier.load(tuned.save(tmp_path / "model"), workers=0)
    np.testing.assert_array_equal(loaded.predict_proba(support), tuned.predict_proba(support))
    assert loaded.fingerprint == tuned.fingerprint != plain.fingerprint
    assert loaded.evaluate_support() == tuned.evaluate_support()
    assert loaded.tuned_ == tuned.tuned_
    assert adapter_of(loaded.backbone_).kind == "tokens"
    again = FewShotClassifier.load(loaded.save(tmp_path / "again"), workers=0)
    assert (again.fingerprint, again.tuned_) == (tuned.fingerprint, tuned.tuned_)


def test_choice_temperature_and_report_are_those_before_tuning(backbone, support):
    plain, tuned = made(backbone, support, tune_on_support=False), made(backbone, support)
    assert (tuned.head_.choice_, tuned.temperature_) == (plain.head_.choice_, plain.temperature_)
    before, after = plain.evaluate_support(), tuned.evaluate_support()
    assert (after.expected, after.confusions, after.comparison) == (before.expected, before.confusions, None)
    assert (
        after.expectation() == f"{before.expectation()} Tuning on your examples came after that and is not judged here."
    )
    assert [score.accuracy for score in compare_methods(tuned)] == [score.accuracy for score in compare_methods(plain)]


def test_classes_come_and_go_and_are_judged_as_before_tuning(backbone, support):
    plain, tuned = made(backbone, support, tune_on_support=False), made(backbone, support)
    backbone_then = tuned.backbone_.adapter_fingerprint
    for classifier in (plain, tuned):
        classifier.add_class("again", support / "red")
        classifier.remove_class("blue")
        classifier.partial_fit(support)
    assert tuned.backbone_.adapter_fingerprint == backbone_then  # more images are learned, not tuned on
    assert tuned.classes_.tolist() == plain.classes_.tolist()
    assert (tuned.head_.choice_, tuned.temperature_) == (plain.head_.choice_, plain.temperature_)
    np.testing.assert_allclose(tuned.frozen_support_, plain.head_.support_, atol=1e-6)
    np.testing.assert_allclose(tuned.head_.support_[-1], tuned.embed(support / "red" / "3.png")[0], atol=1e-5)


def test_it_is_tuned_the_same_every_time_and_forgets_when_fitted_again(backbone, support):
    tuned = made(backbone, support)
    assert tuned.fingerprint == made(backbone, support).fingerprint
    assert tuned.fit(support).fingerprint == made(backbone, support).fingerprint


def test_one_image_per_class_is_not_tuned_on_unless_asked_for(backbone, support):
    images = [support / name / "0.png" for name in ("red", "green", "blue")]
    classifier = FewShotClassifier(backbone, "frozen", workers=0, tune_on_support=True)
    with pytest.warns(UserWarning, match=r"not tuned on the support set, because 1 image .* give one_shot=true"):
        classifier.fit(images, [0, 1, 2])
    assert (classifier.tuned_, classifier.adapter_kind_) == (None, None)
    asked = FewShotClassifier(backbone, "frozen", workers=0, tune_on_support={**QUICK, "one_shot": True})
    assert asked.fit(images, [0, 1, 2]).tuned_ == {**asked.tuned_, **QUICK, "one_shot": True}


def test_what_cannot_be_tuned_is_a_sentence(backbone, support):
    with pytest.raises(InputError, match="embeddings were given to a classifier that is tuned on its images"):
        made(backbone, support).partial_fit(np.zeros((2, 64)), ["red", "blue"])
    options = {"workers": 0, "tune_on_support": True}
    with pytest.raises(InputError, match="embeddings were given"):
        FewShotClassifier(backbone, **options).fit(np.ones((2, 64)), ["a", "b"])
    with pytest.raises(InputError, match="normalized pixels were given"):
        FewShotClassifier(backbone, **options).fit(torch.zeros(2, 3, 32, 32), ["a", "b"])
    with pytest.raises(InputError, match="unknown option 'step': did you mean 'steps'"):
        made(backbone, support, tune_on_support={"step": 1})
    with pytest.raises(InputError, match="tune_on_support='yes' is not usable: give True, False, or a table"):
        made(backbone, support, tune_on_support="yes")


def test_exports_carry_the_class_token_and_refuse_registers_where_there_is_no_place(backbone, support, tmp_path):
    both = made(backbone, support, tune_on_support={**QUICK, "tokens": "both", "registers": 2})
    loaded = FewShotClassifier.load(both.save(tmp_path / "model"))
    exported = export_onnx(loaded.backbone_, tmp_path / "both.onnx", head=head_of(loaded.head_))
    assert (exported.merged, exported.difference < 1e-4) == (False, True)
    with pytest.raises(InputError, match="registers have no equivalent"):
        export_transformers(both.backbone_, tmp_path / "both")
    token = made(backbone, support)
    exported = export_transformers(token.backbone_, tmp_path / "token")
    assert (exported.merged, exported.difference < 1e-4) == (True, True)
