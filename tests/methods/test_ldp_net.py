"""Local-global distillation: the loss in its own words, the twin, and runs that were interrupted."""

import json
import math
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.color_folders import noise_folders
from oracles.method_steps import gradients, striped_episode, train_steps
from oracles.tiny_episode import prepared_objective

from cplsr.adapters.attach import adapter_of, attach
from cplsr.backbones.backbone import Backbone
from cplsr.backbones.load import load_backbone
from cplsr.errors import InputError
from cplsr.methods.ldp_net import LocalGlobalDistillation, distillation, image_pairs, local_pieces
from cplsr.settings.training import TrainingSettings
from cplsr.training.loop import train

prepared = partial(prepared_objective, LocalGlobalDistillation)


def literal_entropy(whole: list[float], local: list[float]) -> float:
    p = [math.exp(x) / sum(math.exp(y) for y in whole) for x in whole]
    q = [math.exp(x) / sum(math.exp(y) for y in local) for x in local]
    return -sum(a * math.log(b) for a, b in zip(p, q, strict=True))


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000), pieces=st.integers(1, 3), queries=st.integers(1, 3), way=st.integers(2, 4))
def test_distillation_is_the_sum_written_out(seed: int, pieces: int, queries: int, way: int):
    generator = torch.Generator().manual_seed(seed)
    whole = 3 * torch.randn(queries, way, generator=generator)
    local = 3 * torch.randn(pieces, queries, way, generator=generator)
    wanted = [literal_entropy(whole[i].tolist(), part[i].tolist()) for part in local for i in range(queries)]
    torch.testing.assert_close(distillation(whole, local).item(), sum(wanted) / len(wanted), rtol=1e-4, atol=1e-5)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000), way=st.integers(2, 5), query=st.integers(2, 6))
def test_pairs_are_two_different_queries(seed: int, way: int, query: int):
    pairs = image_pairs(way, query, torch.Generator().manual_seed(seed))
    assert pairs.shape == (way, 2)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert 0 <= int(pairs.min()) <= int(pairs.max()) < query


def test_pieces_are_of_their_own_image():
    """Plain images: every piece is as plain, and comes in the order of the images."""
    images = torch.tensor([40, 120, 200], dtype=torch.uint8).view(3, 1, 1, 1).expand(3, 3, 16, 16)
    pieces = local_pieces(images, 2, (0.05, 0.14), torch.Generator().manual_seed(0))
    assert pieces.shape == (6, 3, 16, 16)
    means = pieces.float().mean((1, 2, 3)).view(2, 3)
    assert (means[:, 0] < means[:, 1]).all()
    assert (means[:, 1] < means[:, 2]).all()
    assert (pieces.float().flatten(2).std(-1) == 0).all()


def test_pieces_are_local():
    """A small piece of a black and white image is rarely half of each."""
    image = torch.zeros(1, 3, 32, 32, dtype=torch.uint8)
    image[..., 16:] = 255
    pieces = local_pieces(image.expand(20, -1, -1, -1), 1, (0.05, 0.05), torch.Generator().manual_seed(0))
    spread = pieces.float().mean(1).flatten(1).std(-1)
    assert (spread < 5).sum() >= 8


def test_loss_in_its_own_words(backbone: Backbone):
    """Way 3, shot 2, query 3: every prediction and every pair by hand, with a twin that is another network."""
    attach(backbone, "full")
    objective = prepared(backbone, crops=2, momentum=0.5)
    with torch.no_grad():
        for parameter in adapter_of(backbone).parameters():
            parameter.mul_(1.05)
        loss, _ = objective.loss(backbone, striped_episode(noise=3), None)
        episode = striped_episode(noise=3)
        pieces = local_pieces(episode.pixels[:, 2:].flatten(0, 1), 2, (0.05, 0.14), episode.generator)
        pairs = image_pairs(3, 3, episode.generator)
        rows = episode.grouped(backbone(episode.images))
        for parameter in adapter_of(backbone).parameters():
            parameter.mul_((0.5 + 0.5 * 1.05) / 1.05)
        local = backbone(pieces).view(2, 3, 3, -1)
    centers = rows[:, :2].mean(1)

    def logits(vector: torch.Tensor) -> list[float]:
        return [20 * float(torch.cosine_similarity(vector, center, dim=0)) for center in centers]

    plain, within, across = [], [], []
    for c in range(3):
        for i in range(3):
            whole = logits(rows[c, 2 + i])
            plain.append(-whole[c] + math.log(sum(math.exp(x) for x in whole)))
            within += [literal_entropy(whole, logits(local[piece, c, i])) for piece in range(2)]
        one, other = pairs[c].tolist()
        across += [literal_entropy(logits(rows[c, 2 + one]), logits(local[piece, c, other])) for piece in range(2)]
    wanted = sum(plain) / 9 + sum(within) / 18 + 0.15 * sum(across) / 6
    torch.testing.assert_close(loss.item(), wanted, rtol=1e-3, atol=1e-3)


def test_one_query_has_no_pair(backbone: Backbone):
    attach(backbone, "coalescent")
    with torch.no_grad():
        losses = [
            prepared(backbone, crops=1, cross_image=weight).loss(backbone, striped_episode(query=1), None)[0].item()
            for weight in (0.15, 1.0)
        ]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("kind", ["full", "coalescent"])
def test_training_lowers_the_loss_and_reaches_every_weight(backbone: Backbone, kind: str):
    attach(backbone, kind)
    objective = prepared(backbone, crops=2)
    assert list(objective.parameters()) == []
    losses = train_steps(backbone, objective, 8, lr=1e-3 if kind == "full" else 1e-2)
    assert losses[-1] < 0.8 * losses[0]
    got = gradients(adapter_of(backbone))
    assert all(gradient.abs().max() > 0 for name, gradient in got.items() if "bias" not in name)


def test_the_twin_follows_slowly(backbone: Backbone):
    attach(backbone, "coalescent")
    objective = prepared(backbone, crops=1, momentum=0.9)
    start = adapter_of(backbone).C["0"].detach().clone()
    train_steps(backbone, objective, 3, lr=1e-2)
    moved = (adapter_of(backbone).C["0"] - start).norm()
    twin = objective.state_dict()["local.C/0"]
    assert 0 < (twin - start).norm() < 0.5 * moved


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"crops": 0}, "crops is 0"),
        ({"momentum": 1.0}, r"momentum is 1\.0"),
        ({"share": (0.5, 0.2)}, r"share is \[0\.5, 0\.2\]"),
    ],
)
def test_options_that_cannot_be(options: dict[str, object], sentence: str):
    with pytest.raises(InputError, match=sentence):
        LocalGlobalDistillation(**options)


class Interrupted(LocalGlobalDistillation):
    """Stops in the middle of the third base episode."""

    calls = 0

    def loss(self, *arguments: object) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls += 1
        if self.calls == 6:
            raise KeyboardInterrupt
        return super().loss(*arguments)


def test_a_resumed_run_ends_with_the_same_bits(checkpoint_file: Path, tmp_path: Path, monkeypatch):
    base = noise_folders(tmp_path / "base", classes=6, images=6, step=20)
    chosen = TrainingSettings(
        way=2, shot=1, query=2, episodes=8, episodes_per_step=2, lr=1e-3, sst=False, pe=False, validation_episodes=4
    )

    monkeypatch.setattr("cplsr.training.run.SAVE_SECONDS", 0.0)

    def run(name: str, objective: LocalGlobalDistillation, *, resume: bool = False) -> None:
        backbone = load_backbone(checkpoint_file, heads=2)
        out = tmp_path / name
        train(backbone, base, base, out=out, settings=chosen, objective=objective, resume=resume, workers=0)

    options = {"crops": 1, "momentum": 0.5}
    run("whole", LocalGlobalDistillation(**options))
    with pytest.raises(KeyboardInterrupt):
        run("parts", Interrupted(**options))
    run("parts", LocalGlobalDistillation(**options), resume=True)
    for part in ("adapter", "last"):
        files = [tmp_path / name / part / "adapter.safetensors" for name in ("whole", "parts")]
        assert files[0].read_bytes() == files[1].read_bytes()
    lines = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("whole", "parts")]
    losses = [[json.loads(line).get("loss") for line in part] for part in lines]
    assert losses[0] == losses[1]
    assert any(loss is not None for loss in losses[0])
