"""Adapting on every episode: the same episodes as the evaluation's, and no query label in sight."""

import numpy as np
import pytest
import torch
from oracles.tiny_episode import class_images
from PIL import Image

from cplsr.adapters.attach import adapter_of, attach, detach
from cplsr.adapters.store import save_adapter
from cplsr.data.open import open_domain
from cplsr.episodes.prototypes import cosine_logits, prototypes
from cplsr.errors import InputError
from cplsr.evaluation.adapting import Adaptation, AdaptationRequest, measure_adaptation, predictions
from cplsr.evaluation.cache import EmbeddingCache
from cplsr.evaluation.episode_log import EpisodeLog
from cplsr.evaluation.evaluate import evaluate
from cplsr.methods.pmf import FineTuning
from cplsr.settings.episodes import EpisodeSettings

SETTINGS = EpisodeSettings(shots=(1, 2), way=3, query=2, episodes=9, seed=4)


class Watching(Adaptation):
    """Prototypes and nothing more, but it notes what it was given."""

    def __init__(self) -> None:
        self.options = {}
        self.seen = []

    def logits(self, backbone, support, query, generator):
        self.seen.append((adapter_of(backbone).kind, support, query))
        with torch.inference_mode():
            rows = backbone(torch.cat([support.flatten(0, 1), query]))
        known = support.shape[0] * support.shape[1]
        return cosine_logits(rows[known:], prototypes(rows[:known].unflatten(0, support.shape[:2])))


@pytest.fixture
def domain(tmp_path):
    """Five classes of six images, one of them damaged."""
    for label, images in enumerate(class_images(5, 6, size=40)):
        folder = tmp_path / "target" / f"class {label}"
        folder.mkdir(parents=True)
        for number, pixels in enumerate(images):
            Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(folder / f"{number}.png")
    (tmp_path / "target" / "class 1" / "0.png").write_bytes(b"not an image")
    return open_domain(tmp_path / "target")


@pytest.fixture
def stored(backbone, tmp_path):
    attach(backbone, "coalescent", init="near_identity")
    save_adapter(backbone, tmp_path / "cp", shot=2)
    detach(backbone)
    return [("CP", tmp_path / "cp")]


def test_an_adaptation_that_does_nothing_gives_what_the_evaluation_gives(backbone, domain, stored):
    watching = Watching()
    adapted = measure_adaptation(
        backbone, {"T": domain}, AdaptationRequest("pmf", watching, 100), adapters=stored, settings=SETTINGS, workers=0
    )
    with pytest.warns(UserWarning, match="cannot be read"):
        plain = evaluate(backbone, {"T": domain}, adapters=stored, settings=SETTINGS, workers=0)
    assert [(row.method, row.shot) for row in adapted.rows] == [
        (f"{m}+pmf", s) for m in ("frozen", "CP") for s in (1, 2)
    ]
    for row in adapted.rows:
        before = plain.row(row.method.removesuffix("+pmf"), "T", row.shot)
        assert (row.accuracy, row.ci95) == (pytest.approx(before.accuracy), pytest.approx(before.ci95))
        assert (row.episodes, row.way, row.query, row.seed) == (9, 3, 2, 4)
    assert [row.difference for row in adapted.paired if row.method == "frozen+pmf"] == pytest.approx([0, 0], abs=1e-9)
    for row in adapted.paired:
        if row.method == "CP+pmf":
            assert row.difference == pytest.approx(plain.paired_row("CP", "T", row.shot).difference)
    assert {row.against for row in adapted.paired} == {"frozen"}
    assert [kind for kind, *_ in watching.seen] == ["full"] * 18 + ["coalescent"] * 18
    assert backbone.adapter is None


def test_only_the_first_episodes_are_done_and_only_at_the_matching_shot(backbone, domain, stored):
    watching = Watching()
    adapted = measure_adaptation(
        backbone,
        {"T": domain},
        AdaptationRequest("x", watching, 4),
        adapters=stored,
        settings=SETTINGS,
        match_shot=True,
        workers=0,
    )
    assert [(row.method, row.shot, row.train_shot) for row in adapted.rows] == [
        ("frozen+x", 1, None),
        ("frozen+x", 2, None),
        ("CP+x", 2, 2),
    ]
    assert {row.episodes for row in adapted.rows} == {4}
    assert len(watching.seen) == 12
    with pytest.raises(InputError, match="give at least 1"):
        AdaptationRequest("x", watching, 0)


def test_queries_come_in_an_order_that_does_not_tell_their_labels(backbone):
    support, query = class_images(3, 2), class_images(3, 40, seed=1).flatten(0, 1)
    attach(backbone, "full")
    watching = Watching()
    predictions(backbone, watching, support, query, torch.Generator().manual_seed(0))
    numbers = {picture.numpy().tobytes(): number for number, picture in enumerate(query)}
    order = [numbers[picture.numpy().tobytes()] for picture in watching.seen[0][2]]
    assert sorted(order) == list(range(120))
    labels = np.array(order) // 40
    assert 20 < (labels[1:] == labels[:-1]).sum() < 60  # 117 where they stand class by class, 39 by chance


def test_permuting_the_query_labels_changes_no_prediction(backbone):
    support, query = class_images(3, 2), class_images(3, 4, seed=1).flatten(0, 1)
    attach(backbone, "full")
    method = FineTuning(rates=(1e-3,), steps=2, trial_steps=1)
    plain = predictions(backbone, method, support, query, torch.Generator().manual_seed(0))
    order = torch.randperm(12, generator=torch.Generator().manual_seed(5))  # a query's place is its label
    permuted = predictions(backbone, method, support, query[order], torch.Generator().manual_seed(0))
    assert torch.equal(permuted, plain[order])
    assert len(set(plain.tolist())) > 1


def test_fine_tuning_is_the_same_every_time_and_leaves_no_trace(backbone, domain):
    fingerprint = backbone.weights_fingerprint()
    method = FineTuning(rates=(1e-3,), steps=1, trial_steps=1)
    settings = EpisodeSettings(shots=(2,), way=3, query=2, episodes=3)
    request, options = AdaptationRequest("pmf", method), {"settings": settings, "workers": 0}
    first = measure_adaptation(backbone, {"T": domain}, request, **options)
    assert measure_adaptation(backbone, {"T": domain}, request, **options) == first
    assert backbone.weights_fingerprint() == fingerprint


class Stopped(Watching):
    """Is killed in its third episode."""

    def logits(self, backbone, support, query, generator):
        if len(self.seen) == 2:
            raise KeyboardInterrupt
        return super().logits(backbone, support, query, generator)


def test_an_interrupted_measurement_goes_on_to_the_same_result(backbone, domain, tmp_path):
    settings = EpisodeSettings(shots=(2,), way=3, query=2, episodes=5)
    cache = EmbeddingCache(tmp_path / "cache" / "embeddings")
    options = {"settings": settings, "workers": 0}
    with pytest.raises(KeyboardInterrupt):
        measure_adaptation(backbone, {"T": domain}, AdaptationRequest("pmf", Stopped()), cache=cache, **options)
    rest, whole = Watching(), Watching()
    resumed = measure_adaptation(backbone, {"T": domain}, AdaptationRequest("pmf", rest), cache=cache, **options)
    assert resumed == measure_adaptation(backbone, {"T": domain}, AdaptationRequest("pmf", whole), **options)
    assert (len(rest.seen), len(whole.seen)) == (3, 5)
    assert set(resumed.seconds) == {"frozen+pmf"}

    other = Watching()  # other settings, another log
    measure_adaptation(backbone, {"T": domain}, AdaptationRequest("x", other), cache=cache, **options)
    assert len(other.seen) == 5


def test_a_damaged_log_is_a_warning_and_done_again(tmp_path):
    log = EpisodeLog.of({"a": 1}, tmp_path)
    log.add(0.5, 2.0)
    assert EpisodeLog.of({"a": 1}, tmp_path).accuracies == [0.5]
    log.file.write_text("[1, 2")
    with pytest.warns(UserWarning, match="done again"):
        assert len(EpisodeLog.of({"a": 1}, tmp_path)) == 0
    log.add(0.25, 3.0)
    log.file.write_text(log.file.read_text().replace("0.25", "0.75"))
    with pytest.warns(UserWarning, match="done again"):
        assert len(EpisodeLog.of({"a": 1}, tmp_path)) == 0


def test_a_log_that_cannot_be_kept_is_a_warning_and_goes_on(tmp_path):
    (tmp_path / "file").write_text("")
    log = EpisodeLog(tmp_path / "file" / "log.json")
    with pytest.warns(UserWarning, match="cannot be kept"):
        log.add(0.5, 2.0)
    log.add(0.75, 2.0)
    assert log.accuracies == [0.5, 0.75]


def test_the_results_of_an_evaluation_get_the_new_rows_and_say_so(backbone, domain):
    with pytest.warns(UserWarning, match="cannot be read"):
        plain = evaluate(backbone, {"T": domain}, settings=SETTINGS, workers=0)
    watching = Watching()
    adapted = measure_adaptation(
        backbone, {"T": domain}, AdaptationRequest("pmf", watching, 2), settings=SETTINGS, workers=0
    )
    together = adapted.behind(plain)
    assert together.methods == ("frozen", "frozen+pmf")
    assert together.rows[:2] == plain.rows
    assert len(together.paired) == 2
    told = dict(together.settings["adaptation"])
    assert told.pop("seconds_per_episode")["frozen+pmf"] >= 0
    assert told == {"method": "pmf", "options": {}, "episodes": 2}
    assert together.flags[-1].startswith("+pmf adapts on the support set of every episode")
    with pytest.raises(InputError, match=r"'frozen\+pmf' is taken"):
        adapted.behind(together)


def test_a_target_with_too_few_images_is_a_sentence_with_its_name(backbone, domain):
    settings = EpisodeSettings(shots=(5,), way=3, query=9, episodes=3)
    with pytest.raises(InputError, match="T: 3-way episodes need"):
        measure_adaptation(backbone, {"T": domain}, AdaptationRequest("x", Watching()), settings=settings, workers=0)
