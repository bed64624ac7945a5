import numpy as np
import pytest
import torch

from cplsr.adapters.attach import attach, detach
from cplsr.data.decode import decode
from cplsr.errors import InputError
from cplsr.evaluation.cache import EmbeddingCache
from cplsr.evaluation.embed import embed_domain


@pytest.fixture
def cache(tmp_path):
    return EmbeddingCache(tmp_path)


def test_rows_are_the_backbones_embeddings_in_order(backbone, plain_domain):
    domain = plain_domain(images=13)
    pixels = torch.cat([batch.pixels for batch in decode(domain, 16, workers=0)])

    embeddings = embed_domain(backbone, domain, batch_size=4, workers=0)

    with torch.inference_mode():
        np.testing.assert_allclose(embeddings.vectors, backbone(pixels).numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(embeddings.labels, domain.labels)
    np.testing.assert_array_equal(embeddings.indices, np.arange(13))
    assert (embeddings.new, embeddings.failed, len(embeddings)) == (13, (), 13)


def test_each_image_is_embedded_once(backbone, plain_domain, cache):
    domain = plain_domain(images=60)
    first = embed_domain(backbone, domain.select(range(50)), workers=0, cache=cache)
    assert backbone.seen == 50

    second = embed_domain(backbone, domain, workers=0, cache=cache)
    third = embed_domain(backbone, domain, workers=0, cache=cache)

    assert backbone.seen == 60  # ten were added, ten were embedded
    assert (first.new, second.new, third.new) == (50, 10, 0)
    np.testing.assert_array_equal(second.vectors[:50], first.vectors)
    np.testing.assert_array_equal(third.vectors, second.vectors)


def test_an_adapter_has_embeddings_of_its_own(backbone, plain_domain, cache):
    domain = plain_domain(images=6)
    frozen = embed_domain(backbone, domain, workers=0, cache=cache)
    attach(backbone, "coalescent", init="near_identity")

    adapted = embed_domain(backbone, domain, workers=0, cache=cache)
    detach(backbone)
    again = embed_domain(backbone, domain, workers=0, cache=cache)

    assert (adapted.new, again.new) == (6, 0)
    assert not np.allclose(adapted.vectors, frozen.vectors)
    np.testing.assert_array_equal(again.vectors, frozen.vectors)


def test_unreadable_images_are_left_out_by_name(backbone, plain_domain, cache):
    domain = plain_domain(images=12, bad=(3, 7), groups=np.arange(12) // 2)

    with pytest.warns(UserWarning, match=r"2 of 12 images of plain .* 3/3\.png: broken on purpose"):
        embeddings = embed_domain(backbone, domain, batch_size=4, workers=0, cache=cache)

    kept = [i for i in range(12) if i not in (3, 7)]
    assert embeddings.indices.tolist() == kept
    assert embeddings.labels.tolist() == domain.labels[kept].tolist()
    assert embeddings.groups.tolist() == domain.groups[kept].tolist()
    assert embeddings.failed == (("3/3.png", "broken on purpose"), ("1/7.png", "broken on purpose"))
    assert (len(embeddings), embeddings.new) == (10, 10)


def test_a_batch_without_any_readable_image(backbone, plain_domain):
    with pytest.warns(UserWarning, match="2 of 6"):
        embeddings = embed_domain(backbone, plain_domain(images=6, bad=(2, 3)), batch_size=2, workers=0)

    assert embeddings.indices.tolist() == [0, 1, 4, 5]


def test_strict_names_the_first_unreadable_image(backbone, plain_domain):
    with pytest.raises(InputError, match=r"3/3\.png"):
        embed_domain(backbone, plain_domain(images=12, bad=(3,)), workers=0, strict=True)


def test_a_killed_run_loses_no_finished_shard(backbone, plain_domain, cache, monkeypatch):
    monkeypatch.setattr("cplsr.evaluation.cache.IMAGES_PER_SHARD", 8)
    domain = plain_domain(images=40)
    write, sizes = EmbeddingCache.write, []

    def write_or_die(self, key, identities, vectors):
        sizes.append(len(identities))
        if len(sizes) > 2:
            raise SystemExit("killed")
        write(self, key, identities, vectors)

    with monkeypatch.context() as patched:
        patched.setattr(EmbeddingCache, "write", write_or_die)
        with pytest.raises(SystemExit):
            embed_domain(backbone, domain, batch_size=4, workers=0, cache=cache)

    embeddings = embed_domain(backbone, domain, batch_size=4, workers=0, cache=cache)

    assert sizes[:3] == [8, 8, 8]
    assert embeddings.new == 40 - 16
    whole = embed_domain(backbone, domain, batch_size=4, workers=0)
    np.testing.assert_allclose(embeddings.vectors, whole.vectors, rtol=1e-4, atol=1e-5)


def test_embeddings_that_are_not_finite_are_refused_and_not_kept(backbone, plain_domain, cache):
    with torch.no_grad():
        backbone.model.layernorm.weight.fill_(torch.nan)

    with pytest.raises(InputError, match="not finite"):
        embed_domain(backbone, plain_domain(images=6), workers=0, cache=cache)

    assert cache.contents() == []


def test_only_some_rows(backbone, plain_domain):
    with pytest.warns(UserWarning, match="cannot be read"):
        embeddings = embed_domain(backbone, plain_domain(images=12, bad=(3,)), workers=0)

    part = embeddings.only(np.array([2, 4, 11]))

    np.testing.assert_array_equal(part.vectors, embeddings.vectors[[2, 3, 10]])
    assert part.labels.tolist() == [2, 4, 5]


def test_depth_embeddings_are_the_same_fresh_and_from_the_cache(depth_backbone, plain_domain, cache):
    domain, frozen = plain_domain(images=30), depth_backbone()
    pixels = torch.cat([batch.pixels for batch in decode(domain, 16, workers=0)])

    without = embed_domain(frozen, domain, workers=0)
    fresh, again = (embed_domain(frozen, domain, workers=0, cache=cache) for _ in range(2))
    last = embed_domain(depth_backbone(layers=(1,)), domain, workers=0, cache=cache)

    assert (fresh.new, again.new, last.new) == (30, 0, 30)
    assert last.vectors.shape == (30, 32)
    np.testing.assert_array_equal(fresh.vectors, without.vectors)
    np.testing.assert_array_equal(fresh.vectors, again.vectors)
    with torch.inference_mode():
        np.testing.assert_allclose(fresh.vectors, frozen(pixels).numpy(), rtol=1e-3, atol=1e-4)


def test_half_the_bytes_move_no_decision():
    """Prototypes and queries of random embeddings as long as ViT-S/16's, classes as close as real ones."""
    generator = np.random.default_rng(0)
    centers = generator.normal(size=(5, 24, 384))
    images = 0.12 * centers[:, None] + generator.normal(size=(5, 80, 24, 384))
    images = (images / np.linalg.norm(images, axis=-1, keepdims=True)).reshape(5, 80, -1).astype(np.float32)

    scores = []
    for rounded in (images, images.astype(np.float16).astype(np.float32)):
        prototypes, queries = rounded[:, :5].mean(axis=1), rounded[:, 5:].reshape(-1, 24 * 384)
        lengths = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(prototypes, axis=1)
        scores.append(queries @ prototypes.T / lengths)

    best = np.sort(scores[0], axis=1)
    margin = best[:, -1] - best[:, -2]
    assert 0.3 < (scores[0].argmax(1) == np.repeat(np.arange(5), 75)).mean() < 1
    assert np.abs(scores[1] - scores[0]).max() < 2e-5
    np.testing.assert_array_equal((scores[1].argmax(1) != scores[0].argmax(1)) & (margin > 4e-5), False)
    assert (scores[1].argmax(1) != scores[0].argmax(1)).sum() <= 1
