import warnings
from contextlib import contextmanager, nullcontext
from functools import partial

import numpy as np
import pytest
import torch

from cplsr.adapters.attach import attach, detach
from cplsr.errors import InputError
from cplsr.evaluation import embed as module
from cplsr.evaluation.cache import EmbeddingCache
from cplsr.evaluation.embed import embed_domain, embed_many


@contextmanager
def adapted(backbone, seed):
    attach(backbone, "coalescent", init="near_identity", seed=seed)
    try:
        yield
    finally:
        detach(backbone)


@pytest.fixture
def models(backbone):
    """The frozen backbone and two adapters on it."""
    return [nullcontext, partial(adapted, backbone, 1), partial(adapted, backbone, 2)]


def one_by_one(backbone, domain, models, **options):
    found = []
    for model in models:
        with model():
            found.append(embed_domain(backbone, domain, workers=0, **options))
    return found


def assert_same(ours, theirs, rtol=0.0):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.vectors, other.vectors, rtol=rtol, atol=rtol)
        for name in ("labels", "indices"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        assert (one.groups is None) == (other.groups is None)
        assert one.groups is None or one.groups.tolist() == other.groups.tolist()
        for name in ("name", "classes", "flags", "failed", "new"):
            assert getattr(one, name) == getattr(other, name)


@pytest.mark.filterwarnings("ignore:2 of 30 images")
@pytest.mark.parametrize("turn", [512, 8])
def test_three_models_decode_each_image_once_and_get_the_embeddings_of_embed_domain(
    backbone, plain_domain, counted, models, monkeypatch, turn
):
    monkeypatch.setattr(module, "IMAGES_PER_TURN", turn)
    domain, read = counted(plain_domain(images=30, bad=(3, 17), groups=np.arange(30) // 2))

    found = embed_many(backbone, domain, models, batch_size=4, workers=0)

    assert sorted(read) == list(range(30))
    assert backbone.seen == 3 * 28
    assert backbone.adapter is None
    assert_same(found, one_by_one(backbone, domain, models, batch_size=4))
    assert not np.allclose(found[0].vectors, found[1].vectors)


def test_only_what_a_model_lacks_is_decoded_and_embedded(backbone, plain_domain, counted, models, tmp_path):
    cache = EmbeddingCache(tmp_path)
    whole = plain_domain(images=30)
    one_by_one(backbone, whole.select(range(20)), models[:1], cache=cache)
    one_by_one(backbone, whole.select(range(25)), models[1:2], cache=cache)
    one_by_one(backbone, whole, models[2:], cache=cache)
    domain, read = counted(whole)
    before = backbone.seen

    found = embed_many(backbone, domain, models, workers=0, cache=cache)

    assert sorted(read) == list(range(20, 30))
    assert [each.new for each in found] == [10, 5, 0]
    assert backbone.seen - before == 15
    assert_same(
        embed_many(backbone, domain, models, workers=0, cache=cache), one_by_one(backbone, whole, models, cache=cache)
    )
    assert sorted(read) == list(range(20, 30))
    for each, plain in zip(found, one_by_one(backbone, whole, models), strict=True):
        np.testing.assert_allclose(each.vectors, plain.vectors, rtol=1e-4, atol=1e-5)


def test_an_image_that_cannot_be_read_is_missing_only_where_it_was_not_known(backbone, plain_domain, models, tmp_path):
    cache = EmbeddingCache(tmp_path)
    one_by_one(backbone, plain_domain(images=12), models[:1], cache=cache)

    with pytest.warns(UserWarning, match=r"1 of 12 images of plain .* 3/3\.png: broken on purpose"):
        frozen, other, _ = embed_many(backbone, plain_domain(images=12, bad=(3,)), models, workers=0, cache=cache)

    assert (len(frozen), frozen.failed, frozen.new) == (12, (), 0)
    assert (len(other), other.failed, other.new) == (11, (("3/3.png", "broken on purpose"),), 11)
    with pytest.raises(InputError, match=r"3/3\.png"):
        embed_many(backbone, plain_domain(images=12, bad=(3,), seed=5), models, workers=0, strict=True)


def test_what_was_embedded_before_an_error_is_kept(backbone, plain_domain, models, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "IMAGES_PER_TURN", 4)
    cache = EmbeddingCache(tmp_path)

    with pytest.raises(InputError, match=r"3/9\.png"):
        embed_many(
            backbone, plain_domain(images=12, bad=(9,)), models, batch_size=4, workers=0, strict=True, cache=cache
        )

    found = embed_many(backbone, plain_domain(images=12), models, workers=0, cache=cache)
    assert [each.new for each in found] == [4, 4, 4]


def test_embeddings_that_are_not_finite_are_refused(backbone, plain_domain, models, tmp_path):
    with torch.no_grad():
        backbone.model.layernorm.weight.fill_(torch.nan)

    with pytest.raises(InputError, match=r"0/0\.png in plain is not finite"):
        embed_many(backbone, plain_domain(images=6), models, workers=0, cache=EmbeddingCache(tmp_path))

    assert EmbeddingCache(tmp_path).contents() == []


def test_a_model_warns_once_however_often_its_turn_comes(backbone, plain_domain, monkeypatch):
    monkeypatch.setattr(module, "IMAGES_PER_TURN", 2)

    @contextmanager
    def model():
        warnings.warn("trained on other weights", stacklevel=2)
        yield

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        embed_many(backbone, plain_domain(images=10), [model], batch_size=2, workers=0)

    assert [str(warning.message) for warning in caught] == ["trained on other weights"]


def test_no_models_need_no_images(backbone, plain_domain, counted):
    domain, read = counted(plain_domain())

    assert embed_many(backbone, domain, []) == []
    assert read == []
