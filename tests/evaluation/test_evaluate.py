import dataclasses

import numpy as np
import pytest

from cplsr.adapters.attach import attach, detach
from cplsr.adapters.store import load_adapter, save_adapter
from cplsr.episodes.heads import make_head
from cplsr.episodes.heads.em import Em
from cplsr.episodes.heads.ridge import Ridge
from cplsr.episodes.sampling import EpisodeSampler
from cplsr.errors import InputError
from cplsr.evaluation.cache import EmbeddingCache
from cplsr.evaluation.contenders import HeadContender
from cplsr.evaluation.embed import embed_domain
from cplsr.evaluation.evaluate import evaluate, evaluate_embeddings
from cplsr.evaluation.scoring import Scoring
from cplsr.records.results import Results
from cplsr.settings.episodes import EpisodeSettings

SETTINGS = EpisodeSettings(shots=(1, 3), way=4, query=5, episodes=40, seed=3)


@pytest.fixture
def stored(backbone, tmp_path):
    def store(name, **info):
        attach(backbone, "coalescent", init="near_identity", seed=len(name))
        path = save_adapter(backbone, tmp_path / "adapters" / name, **info)
        detach(backbone)
        return path

    return store


def accuracies(backbone, domain, shot):
    embeddings = embed_domain(backbone, domain, workers=0)
    episodes = EpisodeSampler(embeddings.labels, way=4, shot=shot, query=5, seed=3).draw(40)
    return 100 * Scoring(embeddings.vectors).accuracies(episodes)


def test_frozen_rows_are_the_accuracies(backbone, plain_domain):
    targets = {"one": plain_domain(), "two": plain_domain(seed=1, classes=5)}

    results = evaluate(backbone, targets, settings=SETTINGS, workers=0)

    assert [(row.method, row.target, row.shot) for row in results.rows] == [
        ("frozen", target, shot) for target in ("one", "two") for shot in (1, 3)
    ]
    for row in results.rows:
        expected = accuracies(backbone, targets[row.target], row.shot)
        assert row.accuracy == pytest.approx(expected.mean())
        assert row.ci95 == pytest.approx(1.96 * expected.std(ddof=1) / 40**0.5)
        assert (row.way, row.query, row.episodes, row.seed, row.train_shot) == (4, 5, 40, 3, None)
    assert results.paired == ()
    assert results.data["two"]["images"] == 60
    assert results.data["two"]["classes"] == {f"color {c}": 12 for c in range(5)}
    assert results.settings["backbone"]["fingerprint"] == backbone.fingerprint
    assert results.versions["cplsr"]


def test_adapters_are_paired_with_frozen_on_the_same_episodes(backbone, plain_domain, stored, tmp_path):
    domain = plain_domain()
    path = stored("cp", shot=3)

    results = evaluate(
        backbone, {"one": domain}, adapters=[("CP", path)], settings=SETTINGS, workers=0, cache=EmbeddingCache(tmp_path)
    )

    assert backbone.adapter is None
    assert backbone.seen == 120  # each image once for each of the two models
    frozen = {shot: accuracies(backbone, domain, shot) for shot in (1, 3)}
    load_adapter(backbone, path)
    adapted = {shot: accuracies(backbone, domain, shot) for shot in (1, 3)}
    for pair in results.paired:
        difference = adapted[pair.shot] - frozen[pair.shot]
        assert (pair.method, pair.against, pair.target) == ("CP", "frozen", "one")
        assert pair.difference == pytest.approx(difference.mean())
        assert pair.ci95 == pytest.approx(1.96 * difference.std(ddof=1) / 40**0.5)
        assert pair.wins == pytest.approx((difference > 0).mean())
    assert [pair.shot for pair in results.paired] == [1, 3]
    assert results.row("CP", "one", 1).train_shot == 3
    assert results.settings["adapters"][0]["kind"] == "coalescent"


def test_match_shot_measures_an_adapter_only_where_it_was_trained(backbone, plain_domain, stored):
    adapters = [("CP", stored("a", shot=1)), ("CP", stored("bb", shot=3))]

    results = evaluate(
        backbone, {"one": plain_domain()}, adapters=adapters, settings=SETTINGS, match_shot=True, workers=0
    )

    assert [(row.method, row.shot, row.train_shot) for row in results.rows] == [
        ("frozen", 1, None),
        ("CP", 1, 1),
        ("frozen", 3, None),
        ("CP", 3, 3),
    ]
    with pytest.raises(InputError, match="'CP' is taken"):
        evaluate(backbone, {"one": plain_domain()}, adapters=adapters, settings=SETTINGS, workers=0)


def test_requests_that_make_no_sense_are_refused(backbone, plain_domain, stored):
    path = stored("cp")
    targets = {"one": plain_domain()}

    with pytest.raises(InputError, match="no target"):
        evaluate(backbone, {}, settings=SETTINGS)
    with pytest.raises(InputError, match="does not say which shot"):
        evaluate(backbone, targets, adapters=[("CP", path)], settings=SETTINGS, match_shot=True)
    with pytest.raises(InputError, match="'frozen' is taken"):
        evaluate(backbone, targets, adapters=[("frozen", path)], settings=SETTINGS)
    with pytest.raises(InputError, match=r"one: 9-way .* only 6 of 6"):
        evaluate(backbone, targets, settings=dataclasses.replace(SETTINGS, way=9), workers=0)
    with pytest.raises(InputError, match="shots are"):
        EpisodeSettings(shots=(1, 1))
    with pytest.raises(InputError, match="episodes is 0: give a whole number of at least 1"):
        EpisodeSettings(episodes=0)
    attach(backbone, "coalescent")
    with pytest.raises(InputError, match="not frozen"):
        evaluate(backbone, targets, settings=SETTINGS)


@pytest.mark.filterwarnings("ignore:1 of 31 images")
@pytest.mark.filterwarnings("ignore:left out 1 of the classes")
def test_what_is_wrong_with_the_data_is_flagged(backbone, plain_domain):
    domain = dataclasses.replace(plain_domain(images=31, classes=5, bad=(4,)), flags=("a sample",))
    settings = EpisodeSettings(shots=(1,), way=4, query=5, episodes=10)

    results = evaluate(backbone, {"one": domain}, settings=settings, workers=0)

    assert results.flags == (
        "one: a sample",
        "one: 1 images could not be read and were left out",
        "one: class color 4 (5 images) was left out: too few images for an episode",
    )
    assert results.data["one"]["unreadable"] == ["4/4.png"]


def test_all_methods_see_only_images_that_all_have(backbone, plain_domain):
    whole = embed_domain(backbone, plain_domain(), workers=0)
    part = whole.only(np.arange(1, 60))

    found = evaluate_embeddings(
        [HeadContender("frozen", whole), HeadContender("other", part)], target="one", settings=SETTINGS
    )

    assert [row.accuracy for row in found.rows[::2]] == [row.accuracy for row in found.rows[1::2]]
    assert all(pair.difference == 0 and pair.wins == 0 for pair in found.paired)
    assert [row.method for row in found.rows] == ["frozen", "other"] * 2


def test_an_image_is_decoded_once_for_all_models(backbone, plain_domain, counted, stored):
    domain, read = counted(plain_domain())
    adapters = [("a", stored("a")), ("b", stored("bb"))]

    evaluate(backbone, {"one": domain}, adapters=adapters, settings=SETTINGS, workers=0)

    assert sorted(read) == list(range(60))
    assert backbone.seen == 180


def test_every_model_answers_with_every_head(backbone, plain_domain, stored):
    domain = plain_domain()

    results = evaluate(
        backbone,
        {"one": domain},
        adapters=[("CP", stored("cp"))],
        heads=("knn", Ridge(penalty=2.0), "prototypes", "em"),
        settings=SETTINGS,
        workers=0,
    )

    heads = ("", " knn", " ridge penalty=2", " em")
    assert results.methods == tuple(model + head for model in ("frozen", "CP") for head in heads)
    assert [row.shot for row in results.rows] == [1] * 8 + [3] * 8
    assert {row.method for row in results.rows if row.together} == {"frozen em", "CP em"}
    assert {row["name"] for row in results.settings["heads"]} == {"prototypes", "knn", "ridge", "em"}
    vectors = embed_domain(backbone, domain, workers=0).vectors
    episodes = EpisodeSampler(domain.labels, way=4, shot=3, query=5, seed=3).draw(40)
    for name, head in (("knn", make_head("knn")), ("ridge penalty=2", Ridge(penalty=2.0)), ("em", make_head("em"))):
        right = Scoring(vectors).accuracies(episodes, head).mean()
        assert results.row(f"frozen {name}", "one", 3).accuracy == pytest.approx(100 * right)
        assert results.paired_row(f"frozen {name}", "one", 3).against == "frozen"


def test_heads_that_make_no_sense_are_refused(backbone, plain_domain, stored):
    targets = {"one": plain_domain()}

    with pytest.raises(InputError, match="'frozen knn' is taken"):
        evaluate(backbone, targets, adapters=[("frozen knn", stored("x"))], heads=("knn",), settings=SETTINGS)
    with pytest.raises(InputError, match="there is no head 'rigde': did you mean 'ridge'"):
        evaluate(backbone, targets, heads=("rigde",), settings=SETTINGS)
    with pytest.raises(InputError, match="each once"):
        evaluate(backbone, targets, heads=("knn", "knn"), settings=SETTINGS)
    with pytest.raises(InputError, match="each once"):
        evaluate(backbone, targets, heads=("ridge", "ridge:penalty=0.1"), settings=SETTINGS)


def test_a_row_says_the_options_that_are_not_usual(backbone, plain_domain):
    heads = ("ridge:penalty=1", "ridge", "prototypes:kind=mean", "prototypes", Em(gamma=1.0, center="classes"))
    settings = dataclasses.replace(SETTINGS, shots=(1,), prototype="mean_of_normalized")

    results = evaluate(backbone, {"one": plain_domain()}, heads=heads, settings=settings, workers=0)

    assert results.methods == (
        "frozen", "frozen ridge penalty=1", "frozen ridge", "frozen prototypes", "frozen em gamma=1 center=classes"
    )  # fmt: skip
    assert {"name": "ridge", "penalty": 1.0} in results.settings["heads"]
    assert {"name": "prototypes", "kind": "mean_of_normalized"} in results.settings["heads"]


def test_balanced_and_uneven_queries_in_one_run_are_those_of_two(tmp_path, backbone, plain_domain):
    targets = {"one": plain_domain()}

    def measured(*queries):
        settings = dataclasses.replace(SETTINGS, queries=queries)
        return evaluate(backbone, targets, heads=("prototypes", "em"), settings=settings, workers=0)

    both, balanced, uneven = measured("dirichlet", "balanced"), measured("balanced"), measured("dirichlet")

    for part in ("rows", "paired", "confusion", "calibration"):
        assert getattr(both, part) == getattr(balanced, part)
        assert getattr(both.dirichlet, part) == getattr(uneven, part)
    assert balanced.dirichlet is None
    assert "dirichlet" not in balanced.to_json()
    assert both.settings["queries"] == ["dirichlet", "balanced"]
    both.write(tmp_path / "both.json")
    assert Results.read(tmp_path / "both.json").dirichlet == both.dirichlet
    with pytest.raises(InputError, match=r"queries are .*each once"):
        measured("balanced", "balanced")


def test_uneven_queries_have_the_same_support_and_say_so(backbone, plain_domain):
    settings = dataclasses.replace(SETTINGS, queries=("dirichlet",))

    results = evaluate(backbone, {"one": plain_domain()}, settings=settings, workers=0)

    embeddings = embed_domain(backbone, plain_domain(), workers=0)
    episodes = EpisodeSampler(embeddings.labels, way=4, shot=3, query=5, seed=3, queries="dirichlet").draw(40)
    row = results.row("frozen", "one", 3)
    assert row.accuracy == pytest.approx(100 * Scoring(embeddings.vectors).accuracies(episodes).mean())
    assert row.queries == results.settings["queries"] == "dirichlet"
    assert sum(map(sum, results.confusion_row("frozen", "one", 3).counts)) == 40 * 4 * 5


@pytest.mark.filterwarnings("ignore:left out 1 of the classes")
def test_confusion_and_calibration_belong_to_the_accuracies(backbone, plain_domain):
    domain = plain_domain(images=34, classes=6)  # four classes of 6 images, two of 5
    domain = domain.select([*np.flatnonzero(domain.labels != 2).tolist(), 2, 8])  # and one of 2
    settings = EpisodeSettings(shots=(1,), way=4, query=4, episodes=50)

    results = evaluate(backbone, {"one": domain}, heads=("prototypes", "logistic", "knn"), settings=settings, workers=0)

    for row in results.confusion:
        counts = np.array(row.counts)
        assert row.classes == tuple(f"color {c}" for c in (0, 1, 3, 4, 5))  # the one left out is not among them
        assert counts.sum() == 50 * 4 * 4
        assert 100 * np.trace(counts) / counts.sum() == pytest.approx(results.row(row.method, "one", 1).accuracy)
        np.testing.assert_allclose(row.recall, np.diag(counts) / counts.sum(axis=1))
    assert [row.method for row in results.confusion] == ["frozen", "frozen logistic", "frozen knn"]
    for row in results.calibration:
        assert sum(part.share for part in row.bins) == pytest.approx(1)
        right = sum(part.share * part.accuracy for part in row.bins)
        assert 100 * right == pytest.approx(results.row(row.method, "one", 1).accuracy)
        assert row.ece == pytest.approx(sum(part.share * abs(part.accuracy - part.confidence) for part in row.bins))
    assert [(row.method, row.temperature) for row in results.calibration] == [("frozen", 20), ("frozen logistic", 1)]


def test_confidences_have_the_temperature_of_the_training(backbone, plain_domain, stored):
    paths = {
        "cool": stored("aaaa", temperature=4),  # names of one length: the same adapter
        "usual": stored("bbbb"),
        "old": stored("cccc", settings={"temperature": 4.0}),
    }
    results = evaluate(
        backbone, {"one": plain_domain()}, adapters=list(paths.items()), heads=("prototypes", "ridge"),
        settings=dataclasses.replace(SETTINGS, shots=(3,)), workers=0,
    )  # fmt: skip
    rows = {row.method: row for row in results.calibration}
    temperatures = {"frozen": 20, "frozen ridge": 12, "cool": 4, "cool ridge": 12, "usual": 20, "usual ridge": 12}
    assert {name: rows[name].temperature for name in temperatures} == temperatures
    assert rows["old"].bins == rows["cool"].bins
    assert results.row("cool", "one", 3).accuracy == results.row("usual", "one", 3).accuracy

    load_adapter(backbone, paths["cool"])
    embeddings = embed_domain(backbone, plain_domain(), workers=0)
    episodes = EpisodeSampler(embeddings.labels, way=4, shot=3, query=5, seed=3).draw(40)
    confidences = []
    for part in Scoring(embeddings.vectors).scores(episodes):
        odds = np.exp(4 / 20 * part.scores.astype(np.float64))
        confidences.append((odds.max(axis=1) / odds.sum(axis=1)).mean(axis=1))
    mean = sum(part.share * part.confidence for part in rows["cool"].bins)
    assert mean == pytest.approx(np.concatenate(confidences).mean(), abs=1e-5)


def test_an_adapter_trained_otherwise_is_flagged(backbone, plain_domain, stored):
    path = stored("cp")
    backbone.resize(24)

    results = evaluate(backbone, {"one": plain_domain()}, adapters=[("CP", path)], settings=SETTINGS, workers=0)

    assert results.flags == ("CP was trained with another image size than it is evaluated with: 16, not 24",)


def test_an_adapter_trained_on_the_class_token_is_read_at_every_block(depth_backbone, plain_domain, stored):
    path = stored("cp")

    results = evaluate(depth_backbone(), {"one": plain_domain()}, adapters=[("CP", path)], settings=SETTINGS, workers=0)

    assert results.flags == ("CP was trained with another pooling than it is evaluated with: cls, not depth",)
    assert results.settings["backbone"]["pooled_layers"] == (0, 1)
    adapted = accuracies(load_adapter(depth_backbone(), path), plain_domain(), 3)
    assert results.row("CP depth", "one", 3).accuracy == pytest.approx(adapted.mean())
