"""All measures together on tiny domains."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from cplsr import attach, detach, load_adapter, save_adapter
from cplsr.analysis import analyze as module
from cplsr.analysis.analyze import file_stems, one_class_after_another
from cplsr.analysis.bound import NOT_ESTIMATED, bound_terms, proxy_distance, unit_moments, within_between
from cplsr.analysis.drift import drift
from cplsr.errors import InputError
from cplsr.evaluation.cache import EmbeddingCache
from cplsr.evaluation.embed import embed_domain
from cplsr.records.analysis import Panel
from cplsr.settings.analysis import AnalysisSettings

SMALL = {"way": 3, "shots": (1, 2), "entropy_images": 3}


def analyze(backbone, stored, domains, base=None, *, adapter_name=None, cache=None, **settings):
    """`cplsr.analysis.analyze.analyze` without processes."""
    settings = AnalysisSettings(**settings)
    more = {"adapter_name": adapter_name, "cache": cache, "workers": 0}
    return module.analyze(backbone, stored, domains, base, settings, **more)


@pytest.fixture
def stored(backbone, tmp_path):
    """A coalescent projection that has moved, stored."""
    attach(backbone, "coalescent", init="near_identity")
    with torch.no_grad():
        backbone.adapter.C["1"][0] *= 1.5
    save_adapter(backbone, tmp_path / "cp" / "adapter", shot=1)
    detach(backbone)
    return tmp_path / "cp"


def test_every_measure_is_that_of_its_function_at_its_stage(backbone, stored, color_domain):
    target, base = color_domain("leaf", seed=1), color_domain("base", classes=5, seed=2)
    found = analyze(backbone, stored, {"leaf": target}, base, adapter_name="CP", **SMALL)
    assert backbone.adapter is None
    assert list(found.domains) == ["base", "leaf"]
    frozen = {name: embed_domain(backbone, domain, workers=0) for name, domain in (("leaf", target), ("base", base))}
    load_adapter(backbone, stored)
    adapted = {name: embed_domain(backbone, domain, workers=0) for name, domain in (("leaf", target), ("base", base))}
    for stage, embeddings in (("before", frozen), ("after", adapted)):
        measures = getattr(found.domains["leaf"], stage)
        moments = unit_moments(embeddings["leaf"].vectors, embeddings["leaf"].labels)
        assert measures.within_between == within_between(moments)
        assert measures.bound == {shot: bound_terms(moments, shot=shot, way=3) for shot in (1, 2)}
        assert measures.proxy_distance == proxy_distance(embeddings["base"].vectors, embeddings["leaf"].vectors)
        assert np.shape(measures.attention_entropy) == np.shape(measures.attention_entropy_rows) == (2, 2)
        assert getattr(found.domains["base"], stage).proxy_distance is None
    assert found.domains["leaf"].drift == drift(frozen["leaf"].vectors, adapted["leaf"].vectors)
    assert found.domains["leaf"].drift.cosine < 1
    assert found.domains["leaf"].images == 20
    assert found.domains["leaf"].before != found.domains["leaf"].after
    parameters = 2 * 2 * 32 * 32
    assert found.adapter["name"] == "CP"
    assert found.adapter["kind"] == "coalescent"
    assert found.adapter["parameters"] == parameters
    assert found.adapter["fingerprint"] == backbone.adapter.fingerprint
    assert found.backbone["source"] == backbone.source
    assert NOT_ESTIMATED in found.notes


def test_heads_carry_the_mean_change_of_entropy(backbone, stored, color_domain):
    found = analyze(backbone, stored, {"a": color_domain(seed=1), "b": color_domain(seed=2)}, **SMALL)
    assert (found.heads[0].layer, found.heads[0].head) == (1, 0)
    assert [h.distance for h in found.heads] == sorted((h.distance for h in found.heads), reverse=True)
    for head in found.heads:
        changes = []
        for domain in found.domains.values():
            old, new = domain.before.attention_entropy, domain.after.attention_entropy
            changes.append(new[head.layer][head.head] - old[head.layer][head.head])
        assert head.entropy_change == pytest.approx(sum(changes) / 2)
    assert any(abs(head.entropy_change) > 1e-4 for head in found.heads)


def test_without_an_adapter_only_the_frozen_backbone_is_told(backbone, color_domain):
    found = analyze(backbone, None, {"leaf": color_domain()}, **SMALL)
    assert found.adapter is None
    assert found.heads == ()
    assert found.domains["leaf"].after is None
    assert found.domains["leaf"].before.proxy_distance is None
    assert found.settings["base"] is None
    assert found.cost == found.panels == found.attention == ()


def test_other_adapters_have_no_heads_and_prompts_get_a_remark(backbone, tmp_path, color_domain):
    attach(backbone, "soft_prompts", length=2)
    save_adapter(backbone, tmp_path / "prompts")
    detach(backbone)
    found = analyze(backbone, tmp_path / "prompts", {"leaf": color_domain()}, attention_images=1, **SMALL)
    assert found.heads == ()
    assert found.adapter["name"] == "prompts"
    assert any("prompts" in note for note in found.notes)
    assert len(found.attention) == 1


def test_pictures_are_of_images_of_different_classes_and_named_after_their_domain(backbone, stored, color_domain):
    found = analyze(backbone, stored, {"a/b: [c]": color_domain()}, attention_images=3, **SMALL)
    assert [picture.file for picture in found.attention] == [f"attention/a_b_c-{n}.png" for n in range(3)]
    assert len({picture.image.split("/")[0] for picture in found.attention}) == 3
    picture = Image.open(io.BytesIO(found.attention[0].png))
    assert picture.width > picture.height > 2 * 144


def test_panels_come_before_and_after_for_every_domain(backbone, stored, color_domain, monkeypatch):
    def make_panel(domain, stage, classes, vectors, labels):
        return Panel(domain, stage, classes, tuple(labels.tolist()), (0.0,) * len(labels), (0.0,) * len(labels))

    monkeypatch.setattr(module, "make_panel", make_panel)
    monkeypatch.setattr(module, "require_umap", lambda: None)
    found = analyze(backbone, stored, {"leaf": color_domain()}, color_domain("base", seed=3), umap=True, **SMALL)
    shown = [(panel.domain, panel.stage) for panel in found.panels]
    assert shown == [("base", "before"), ("base", "after"), ("leaf", "before"), ("leaf", "after")]
    assert found.to_json()["umap"] == "umap.json"


def test_a_missing_extra_is_told_before_anything_is_embedded(backbone, color_domain, monkeypatch):
    def missing():
        raise InputError("pip install 'cplsr[viz]'")

    monkeypatch.setattr(module, "require_umap", missing)
    monkeypatch.setattr(module, "embed_domain", None)
    with pytest.raises(InputError, match="viz"):
        analyze(backbone, None, {"leaf": color_domain()}, umap=True, **SMALL)


def test_images_per_class_limits_each_class_and_the_seed_chooses(backbone, color_domain):
    domain = color_domain(per_class=8)
    found = analyze(backbone, None, {"leaf": domain}, images_per_class=3, **SMALL)
    again = analyze(backbone, None, {"leaf": domain}, images_per_class=3, **SMALL)
    other = analyze(backbone, None, {"leaf": domain}, images_per_class=3, seed=1, **SMALL)
    everything = analyze(backbone, None, {"leaf": domain}, images_per_class=None, **SMALL)
    assert found.domains["leaf"].images == 12
    assert everything.domains["leaf"].images == 32
    assert found.to_json() == again.to_json()
    assert found.domains != other.domains


def test_the_cache_is_used(backbone, stored, color_domain, monkeypatch):
    cache = EmbeddingCache()
    first = analyze(backbone, stored, {"leaf": color_domain()}, cache=cache, **SMALL)
    monkeypatch.setattr("cplsr.evaluation.embed.decode", None)
    assert analyze(backbone, stored, {"leaf": color_domain()}, cache=cache, **SMALL).to_json() == first.to_json()


def test_unreadable_images_lonely_classes_and_flags_are_remarks(backbone, stored, color_domain):
    # class 0 has the images 0, 4, 8, 12, 16: one is left
    domain = color_domain(bad=(0, 4, 8, 12), flags=("a sample",))
    with pytest.warns(UserWarning, match="cannot be read"):
        found = analyze(backbone, stored, {"leaf": domain}, **SMALL)
    assert found.domains["leaf"].images == 15
    notes = " ".join(found.notes)
    for words in ("leaf: a sample", "leaf: 4 images could not be read", "class color 0 was left out"):
        assert words in notes


def test_a_base_domain_with_a_targets_name_gets_another(backbone, color_domain):
    found = analyze(backbone, None, {"colors": color_domain()}, color_domain(seed=3), **SMALL)
    assert list(found.domains) == ["colors (base)", "colors"]
    assert found.settings["base"] == "colors (base)"


def test_cost_is_measured_when_asked_for(backbone, color_domain, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "cost_rows", lambda frozen: asked.append(frozen.adapter) or ())
    monkeypatch.setattr(module, "installed_version", lambda name: None)
    found = analyze(backbone, None, {"leaf": color_domain()}, cost=True, **SMALL)
    assert asked == [None]
    assert any("cost curves were not drawn" in note for note in found.notes)


def test_an_adapter_trained_at_another_size_is_a_remark(backbone, stored, color_domain):
    backbone.resize(48)
    found = analyze(backbone, stored, {"leaf": color_domain()}, **SMALL)
    assert "the adapter was trained with another image size than it is analyzed with: 32, not 48" in found.notes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"way": 5}, "4 classes with two images or more, fewer than way 5"),
        ({"shots": ()}, "shots is .*at least 1"),
        ({"shots": (0,)}, "shots is .*at least 1"),
        ({"entropy_images": 0}, "entropy_images is 0: .*at least 1"),
        ({"attention_images": -1}, "attention_images is -1: .*at least 0"),
        ({"images_per_class": 1}, "images_per_class is 1: .*at least 2"),
    ],
)
def test_requests_that_make_no_sense_are_refused(backbone, color_domain, options, words):
    with pytest.raises(InputError, match=words):
        analyze(backbone, None, {"leaf": color_domain()}, **{**SMALL, **options})


def test_nothing_to_look_at_nothing_readable_and_an_attached_adapter_are_refused(backbone, color_domain):
    with pytest.raises(InputError, match="no domain"):
        analyze(backbone, None, {}, **SMALL)
    with pytest.raises(InputError, match="can be read"):
        analyze(backbone, None, {"leaf": color_domain(bad=range(20))}, **SMALL)
    attach(backbone, "residual")
    with pytest.raises(InputError, match="detach"):
        analyze(backbone, None, {"leaf": color_domain()}, **SMALL)


def test_classes_take_turns():
    labels = np.array([0] * 10 + [1] * 2 + [2] * 5)
    order = one_class_after_another(labels, seed=0)
    assert sorted(order.tolist()) == list(range(17))
    assert sorted(labels[order[:3]]) == sorted(labels[order[3:6]]) == [0, 1, 2]
    assert sorted(labels[order[6:8]]) == [0, 2]
    assert not np.array_equal(order, one_class_after_another(labels, seed=1))


def test_names_become_files_of_their_own():
    assert file_stems(["Leaf", "leaf", "../x", "...", "ä"]) == ["leaf", "leaf_2", "x", "domain", "domain_2"]
