"""Tuning on the support set: the update written out, what it sees, what it leaves behind, when it is left out."""

import pytest
import torch
from oracles.tiny_episode import class_images
from PIL import Image
from torch.nn.functional import cosine_similarity, cross_entropy

from cplsr.ablation.plan import plan_runs, read_rows
from cplsr.adapters.attach import adapter_of, attach, detach
from cplsr.adapters.store import save_adapter
from cplsr.adapters.tokens import remove_tokens
from cplsr.backbones.load import load_backbone
from cplsr.data.open import open_domain
from cplsr.errors import InputError
from cplsr.evaluation.adapting import AdaptationRequest, measure_adaptation, predictions
from cplsr.evaluation.cache import EmbeddingCache
from cplsr.evaluation.evaluate import evaluate
from cplsr.methods.pmf import augment
from cplsr.methods.support_tuning import SupportTuning, make_tuning
from cplsr.settings.episodes import EpisodeSettings
from cplsr.settings.training import TrainingSettings

LABELS = torch.arange(3).repeat_interleave(2)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tuned_tokens(backbone, tuning, seed=0, **more):
    tuning.tune(backbone, class_images(3, 2).flatten(0, 1), LABELS, seeded(seed), **more)
    own = [parameter.detach().clone() for parameter in adapter_of(backbone).own()]
    remove_tokens(backbone)
    return own


@pytest.mark.parametrize("scaled", [False, True])
def test_the_update_is_adamw_on_augmented_copies_against_a_head_that_begins_as_prototypes(backbone, scaled):
    support = class_images(3, 2).flatten(0, 1)
    scale = torch.linspace(0.1, 2, 64) if scaled else None
    tuning = SupportTuning(tokens="both", registers=2, steps=3, lr=1e-2, head_lr=3e-3, weight_decay=0.1)
    found = tuned_tokens(backbone, tuning, scale=scale)

    factors = torch.ones(64) if scale is None else scale
    draws = seeded()
    start = torch.randn(2, 64, generator=seeded(int(torch.randint(2**31, (1,), generator=draws)))) / 8
    head = (backbone(support) * factors).unflatten(0, (3, 2)).mean(dim=1)
    head = head / head.norm(dim=1, keepdim=True)
    learning = [torch.zeros(64).requires_grad_(), start.requires_grad_(), head.requires_grad_()]
    first, second = ([torch.zeros_like(p) for p in learning] for _ in range(2))
    for step in range(1, 4):
        chosen = torch.randperm(6, generator=draws)
        copies = augment(support[chosen], draws)

        def between(layer, x):
            new = torch.cat([x[:, :1] + learning[0], learning[1].expand(len(x), -1, -1), x[:, 1:]], dim=1)
            return x if layer else new

        z = backbone(copies, between=between) * factors
        loss = cross_entropy(20 * cosine_similarity(z[:, None], learning[2][None], dim=-1), LABELS[chosen])
        gradients = torch.autograd.grad(loss, learning)
        with torch.no_grad():
            for p, g, m, v, rate in zip(learning, gradients, first, second, (1e-2, 1e-2, 3e-3), strict=True):
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.999).add_(0.001 * g * g)
                p.mul_(1 - rate * 0.1)
                p.sub_(rate * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8))
    for tensor, expected in zip(found, learning[:2], strict=True):
        # Adam divides by the size of a gradient, which makes a rounding error of a tiny one a whole step.
        assert (tensor - expected).abs().median() < 1e-5
        assert (tensor - expected).abs().max() < 2e-2
    assert found[0].abs().max() > 2e-2


@pytest.mark.parametrize("tokens", ["class_token", "registers", "both"])
@pytest.mark.parametrize("kind", [None, "coalescent", "full", "soft_prompts"])
def test_it_is_the_same_for_the_same_seed_and_leaves_no_trace(backbone, kind, tokens):
    if kind is not None:
        attach(backbone, kind)
    before, adapter = backbone.weights_fingerprint(), backbone.adapter_fingerprint
    support, query = class_images(3, 2), class_images(3, 3, seed=1).flatten(0, 1)
    tuning = SupportTuning(tokens=tokens, registers=2, steps=2, lr=3e-2)
    plain = SupportTuning(steps=1, lr=1e-30).logits(backbone, support, query, seeded())
    found = tuning.logits(backbone, support, query, seeded())
    assert found.shape == (9, 3)
    assert not torch.allclose(found, plain, atol=1e-3)
    assert torch.equal(found, tuning.logits(backbone, support, query, seeded()))
    assert not torch.equal(found, tuning.logits(backbone, support, query, seeded(1)))
    assert (backbone.weights_fingerprint(), backbone.adapter_fingerprint) == (before, adapter)
    assert all(parameter.grad is None for parameter in backbone.parameters())


def test_it_is_taken_off_when_something_goes_wrong(backbone, monkeypatch):
    attach(backbone, "coalescent")

    def broken(*_):
        raise RuntimeError("no")

    monkeypatch.setattr("cplsr.methods.support_tuning.augment", broken)
    with pytest.raises(RuntimeError, match="no"):
        SupportTuning(steps=1).logits(backbone, class_images(2, 2), class_images(2, 1).flatten(0, 1), seeded())
    assert adapter_of(backbone).kind == "coalescent"


def test_permuting_the_query_labels_changes_no_prediction(backbone):
    support, query = class_images(3, 2), class_images(3, 4, seed=1).flatten(0, 1)
    tuning = SupportTuning(steps=2, lr=1e-2)
    plain = predictions(backbone, tuning, support, query, seeded())
    order = torch.randperm(12, generator=seeded(5))  # a query's place is its label
    assert torch.equal(predictions(backbone, tuning, support, query[order], seeded()), plain[order])
    assert len(set(plain.tolist())) > 1


def test_from_a_large_support_set_every_step_draws_some(backbone, monkeypatch):
    seen = []
    monkeypatch.setattr("cplsr.methods.support_tuning.AT_ONCE", 4)
    monkeypatch.setattr(
        "cplsr.methods.support_tuning.augment", lambda images, generator: (seen.append(images), images)[1]
    )
    tuned_tokens(backbone, SupportTuning(steps=3))
    assert [len(images) for images in seen] == [4, 4, 4]
    assert not torch.equal(seen[0], seen[1])


@pytest.fixture
def domain(tmp_path):
    for label, images in enumerate(class_images(5, 6)):
        folder = tmp_path / "target" / f"class {label}"
        folder.mkdir(parents=True)
        for number, pixels in enumerate(images):
            Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(folder / f"{number}.png")
    return open_domain(tmp_path / "target")


class Interrupted(SupportTuning):
    """Is killed in its third episode."""

    def logits(self, *arguments):
        self.done = getattr(self, "done", 0) + 1
        if self.done == 3:
            raise KeyboardInterrupt
        return super().logits(*arguments)


def test_an_interrupted_measurement_goes_on_to_the_same_result(backbone, domain, tmp_path):
    attach(backbone, "coalescent", init="near_identity")
    save_adapter(backbone, tmp_path / "cp", shot=2)
    detach(backbone)
    fingerprint = backbone.weights_fingerprint()
    cache = EmbeddingCache(tmp_path / "cache" / "embeddings")
    options = {
        "settings": EpisodeSettings(shots=(2,), way=3, query=2, episodes=4),
        "adapters": [("CP", tmp_path / "cp")],
        "workers": 0,
    }
    targets = {"T": domain}
    chosen = {"steps": 2, "lr": 3e-2}
    with pytest.raises(KeyboardInterrupt):
        measure_adaptation(backbone, targets, AdaptationRequest("tuned", Interrupted(**chosen)), cache=cache, **options)
    request = AdaptationRequest("tuned", SupportTuning(**chosen))
    resumed = measure_adaptation(backbone, targets, request, cache=cache, **options)
    assert resumed == measure_adaptation(backbone, targets, request, **options)
    assert {row.method for row in resumed.rows} == {"frozen+tuned", "CP+tuned"}
    assert backbone.adapter is None
    assert backbone.weights_fingerprint() == fingerprint


def test_one_shot_is_left_out_with_the_reason_unless_asked_for(backbone, domain):
    settings = EpisodeSettings(shots=(1, 2), way=3, query=2, episodes=2)
    plain = evaluate(backbone, {"T": domain}, settings=settings, workers=0)
    options = {"settings": settings, "workers": 0}
    request = AdaptationRequest("tuned", SupportTuning(steps=1))
    together = measure_adaptation(backbone, {"T": domain}, request, **options).behind(plain)
    assert [row.shot for row in together.rows if row.method == "frozen+tuned"] == [2]
    assert together.flags[-2].startswith("+tuned, 1-shot: not tuned on the support set, because 1 image of a class")
    asked = AdaptationRequest("tuned", SupportTuning(steps=1, one_shot=True))
    assert [row.shot for row in measure_adaptation(backbone, {"T": domain}, asked, **options).rows] == [1, 2]

    options["settings"] = EpisodeSettings(shots=(1,), way=3, query=2, episodes=2)
    nothing = measure_adaptation(backbone, {"T": domain}, request, **options)
    assert nothing.rows == ()
    assert len(nothing.behind(plain).flags) == len(plain.flags) + 1


def test_wrong_options_are_a_sentence(checkpoint_file):
    with pytest.raises(
        InputError, match="tuning on the support set has an unknown option 'step': did you mean 'steps'"
    ):
        make_tuning({"step": 3})
    with pytest.raises(InputError, match="tokens is 'patches': give 'class_token', 'registers' or 'both'"):
        make_tuning({"tokens": "patches"})
    with pytest.raises(InputError, match="bf16 is too coarse"):
        tuned_tokens(load_backbone(checkpoint_file, heads=2, precision="bf16"), SupportTuning())


def test_rows_of_an_ablation_may_tune_whatever_their_method():
    def planned(**table):
        return plan_runs(read_rows({"A": table}), TrainingSettings(), shots=[5], seeds=[0])[0]

    run = planned(method="fwt", adapt=7, tune_on_support=True, adapt_options={"steps": 9})
    assert (run.adaptation().options["steps"], run.adapts_by) == (9, "tuned")
    assert planned(method="pmf", adapt=7).adapts_by == "pmf"
    with pytest.raises(InputError, match="adapt is 0: give the number of target episodes"):
        planned(tune_on_support=True)
    with pytest.raises(InputError, match="'frozen' the option 'tune_on_support'"):
        planned(adapter="frozen", tune_on_support=True)
