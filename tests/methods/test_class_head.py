"""The classifier over all base classes: its start, its loss, and runs of the methods that have one."""

from pathlib import Path

import pytest
import torch
from oracles.color_folders import noise_folders
from oracles.tiny_episode import tiny_episode
from torch import nn

from cplsr import TrainingSettings, load_adapter, load_backbone, train
from cplsr.adapters.store import read_adapter_info
from cplsr.methods.class_head import class_head, class_loss
from cplsr.methods.registry import METHODS, make_objective, trained_kind


def test_the_loss_is_the_cross_entropy_of_all_images_over_all_classes():
    episode, head = tiny_episode(), class_head(8, 5, bias=True)
    rows = torch.randn(15, 8, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        found, right = class_loss(head, episode, rows)
    total, hits = 0.0, 0
    for number in range(15):
        scores = [float(rows[number] @ head.weight[c].detach() + head.bias[c].detach()) for c in range(5)]
        truth = number // 5 + 1  # the episode's classes are 1, 2 and 3
        total -= scores[truth] - float(torch.tensor(scores).exp().sum().log())
        hits += scores.index(max(scores)) == truth
    assert found.item() == pytest.approx(total / 15, abs=1e-5)
    assert right.item() == pytest.approx(hits / 15)


def test_it_starts_as_torchs_own_from_a_seed_of_its_own():
    state = torch.random.get_rng_state()
    head = class_head(100, 7)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(head.weight, class_head(100, 7).weight)
    assert head.bias is None
    assert 0 < class_head(100, 7, bias=True).bias.abs().max() < 0.1
    assert 0.095 < head.weight.abs().max() < 0.1
    assert head.weight.std().item() == pytest.approx(nn.Linear(100, 7).weight.std().item(), rel=0.1)


@pytest.fixture
def base(tmp_path: Path):
    return noise_folders(tmp_path / "base", classes=4, images=4, step=30)


@pytest.mark.parametrize("trains", ["backbone", "adapter"])
@pytest.mark.parametrize("name", ["attn_temp", "reap", "cd_cls"])
def test_a_run_goes_on_with_the_same_bits_and_its_adapter_is_the_methods(
    name, trains, base, checkpoint_file: Path, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr("cplsr.training.run.SAVE_SECONDS", 0.0)
    settings = TrainingSettings(
        way=2, shot=1, query=1, episodes=3, lr=1e-3, sst=False, pe=False, validation_episodes=4, validate_every=0
    )
    method = METHODS.find(name)
    kind, options = trained_kind(method, trains, "coalescent", {})
    calls = iter(range(2))

    def run(out: str, *, interrupted: bool = False, resume: bool = False) -> None:
        objective = make_objective(method, {}, settings)
        if interrupted:
            whole = objective.loss
            objective.loss = lambda *a: whole(*a) if next(calls, None) is not None else _interrupt()
        backbone = load_backbone(checkpoint_file, heads=2)
        train(
            backbone, base, base, out=tmp_path / out, adapter=kind, adapter_options=options, settings=settings,
            objective=objective, resume=resume, workers=0,
        )  # fmt: skip

    run("whole")
    with pytest.raises(KeyboardInterrupt):
        run("parts", interrupted=True)
    run("parts", resume=True)
    files = [tmp_path / out / "last" / "adapter.safetensors" for out in ("whole", "parts")]
    assert files[0].read_bytes() == files[1].read_bytes()

    stored = read_adapter_info(tmp_path / "whole")
    learned = "full" if trains == "backbone" else "coalescent"
    carried = {"adapter": learned, "adapter_options": {}}
    assert stored.info["method"] == name
    assert stored.kind == ("attention_temperature" if name == "attn_temp" else learned)
    assert carried.items() <= stored.options.items() or name != "attn_temp"
    loaded = load_adapter(load_backbone(checkpoint_file, heads=2), tmp_path / "whole")
    seen = []
    loaded(torch.zeros(1, 3, 32, 32), lambda layer, tokens: seen.append(tokens.shape[1]) or tokens)
    assert seen == [17, 17]  # no registers, no prompts


def _interrupt():
    raise KeyboardInterrupt
