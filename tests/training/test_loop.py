"""Training end to end on a tiny domain: what is written, what is learned, what is refused."""

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from cplsr import TrainingSettings, load_adapter, load_backbone, train
from cplsr.adapters.attach import adapter_of
from cplsr.adapters.kinds import KINDS
from cplsr.adapters.store import read_adapter_info
from cplsr.environment import cache_folder
from cplsr.errors import InputError
from cplsr.reservation.pseudo_episodes import PseudoEpisodeStream
from cplsr.training import loop, objective

SETTINGS = TrainingSettings(
    way=2, shot=2, query=2, episodes=4, lr=1e-3, validation_episodes=8, candidates=10, pseudo_episodes=3,
    validate_every=2, shrinkage="ledoit_wolf",
)  # fmt: skip

VARIANTS = [
    {"head": "ridge", "pooling": "depth"},
    {"anchor": 5.0, "pooling": "depth"},
    {"trust": 0.05},
    {"average": 0.75},
    {"augment": "foreign"},
    {"turns": "views", "pooling": "depth"},
    {"follow": 1, "pooling": "depth", "episodes": 6},
    {"follow": 2, "statistics": "normalized", "episodes_per_step": 2},
]
"""What is off by default."""


def rows(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def tensors(folder: Path) -> bytes:
    return (folder / "adapter.safetensors").read_bytes()


@pytest.fixture
def run(checkpoint_file, tiny, tmp_path, monkeypatch):
    """Train with changed settings in a folder of its own; returns the folder."""
    monkeypatch.setattr("cplsr.training.run.SAVE_SECONDS", 0.0)

    def go(name="run", adapter="coalescent", adapter_options=None, resume=False, pooling="cls", layers=None, **changes):
        backbone = load_backbone(checkpoint_file, heads=2, pooling=pooling, layers=layers)
        settings = replace(SETTINGS, **changes)
        result = train(
            backbone, tiny, out=tmp_path / name, adapter=adapter, adapter_options=adapter_options,
            settings=settings, workers=0, resume=resume,
        )  # fmt: skip
        assert backbone.adapter is None
        return result

    return go


def test_a_run_leaves_adapters_metrics_and_a_record(run, checkpoint_file, tmp_path):
    result = run()
    folder = tmp_path / "run"
    assert sorted(path.name for path in folder.iterdir()) == ["adapter", "last", "metrics.jsonl", "run.json"]
    record = json.loads((folder / "run.json").read_text())
    assert record["finished"]
    assert record["settings"]["lr"] == 1e-3
    assert record["data"]["base"]["classes"] + record["data"]["val"]["classes"] == 10
    assert record["versions"]["torch"]
    episodes = [row["episode"] for row in rows(folder) if "loss" in row]
    validations = [row["episode"] for row in rows(folder) if "validation" in row]
    assert episodes == [1, 2, 3, 4]
    assert validations == [0, 2, 4]
    last = [row for row in rows(folder) if "validation" in row][-1]
    assert sorted(last["distance_from_identity"]) == ["0", "1"]
    assert min(last["distance_from_identity"].values()) > 0
    assert rows(folder)[0]["distance_from_identity"] == {"0": 0.0, "1": 0.0}
    assert result.best_accuracy == max(row["validation"] for row in rows(folder) if "validation" in row)
    stored = read_adapter_info(folder)
    assert stored.info["shot"] == 2
    load_adapter(load_backbone(checkpoint_file, heads=2), folder)


def test_the_same_command_gives_the_same_adapter_and_another_seed_another(run, tmp_path):
    run("a")
    run("b")
    run("c", seed=1)
    assert tensors(tmp_path / "a" / "last") == tensors(tmp_path / "b" / "last")
    assert tensors(tmp_path / "a" / "last") != tensors(tmp_path / "c" / "last")


@pytest.mark.parametrize(
    "changes",
    [
        {"sst": False}, {"pe": False}, {"sst": False, "pe": False}, {"statistics": "normalized"}, {"online": True},
        {"novel_similarity": "cosine"}, {"shrinkage": "none"}, {"statistics_images": 3}, {"symmetry": 0.5},
        {"prototype": "mean_of_normalized"}, {"temperature": 5.0}, {"weight_decay": 0.1}, {"episodes_per_step": 2},
        {"ridge": 0.1}, {"survivors": 1}, {"lr": 1e-4}, {"optimizer": "sgd"}, {"schedule": "cosine"}, {"warmup": 0.5},
        {"augment": "colors"}, {"augment": "crop"},
    ],
    ids=lambda c: ",".join(c),
)  # fmt: skip
def test_every_setting_makes_a_difference(run, tmp_path, changes):
    run("plain")
    run("changed", **changes)
    assert tensors(tmp_path / "plain" / "last") != tensors(tmp_path / "changed" / "last")


def test_checkpointing_makes_none(run, tmp_path):
    run("plain")
    run("changed", checkpointing=True)
    assert tensors(tmp_path / "plain" / "last") == tensors(tmp_path / "changed" / "last")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_of_adapter_trains(run, tmp_path, kind):
    options = {"adapter": "residual"} if kind == "attention_temperature" else {}
    run(kind, adapter=kind, adapter_options=options, episodes=2)
    assert read_adapter_info(tmp_path / kind).kind == kind
    assert "distance_from_identity" in rows(tmp_path / kind)[0] or kind != "coalescent"


def test_nothing_to_train_is_a_sentence_before_anything_is_written(run, tmp_path):
    with pytest.raises(InputError, match="'attention_temperature' has no parameters, so there is nothing to train"):
        run(adapter="attention_temperature")
    assert not (tmp_path / "run").exists()


def test_training_lowers_the_loss(run, tmp_path):
    run("long", episodes=30, lr=3e-3, validate_every=0)
    losses = [row["loss"] for row in rows(tmp_path / "long") if "loss" in row]
    assert sum(losses[-10:]) < sum(losses[:10])


def test_the_best_adapter_wins_and_of_equals_the_later(run, tmp_path, monkeypatch):
    from cplsr.records.estimate import Estimate

    values = iter([50.0, 70.0, 70.0])
    monkeypatch.setattr(loop.Validation, "accuracy", lambda *_: Estimate(next(values), 1.0))
    result = run("best")
    assert (result.best_accuracy, result.best_episode, result.start_accuracy) == (70.0, 4, 50.0)
    values = iter([50.0, 70.0, 60.0])
    result = run("middle")
    assert result.best_episode == 2
    assert read_adapter_info(tmp_path / "middle").info["episode"] == 2
    assert tensors(tmp_path / "middle" / "adapter") != tensors(tmp_path / "middle" / "last")
    values = iter([80.0, 70.0, 60.0])
    run("start")
    assert read_adapter_info(tmp_path / "start").info["episode"] == 0
    values = iter([80.0, 70.0, 60.0])
    run("last", select="last")
    assert tensors(tmp_path / "last" / "adapter") == tensors(tmp_path / "last" / "last")


def test_a_finished_run_is_left_alone(run, tmp_path):
    run()
    before = tensors(tmp_path / "run" / "adapter")
    assert run(resume=True).already_finished
    assert tensors(tmp_path / "run" / "adapter") == before
    with pytest.raises(InputError, match="finished run"):
        run()
    with pytest.raises(InputError, match=r"lr: 0.001, now 0.5"):
        run(resume=True, lr=0.5)


def test_resume_on_a_missing_folder_starts(run):
    assert not run(resume=True).already_finished


def test_a_folder_of_something_else_is_not_touched(run, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("all of it")
    with pytest.raises(InputError, match="holds no training run"):
        run()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.txt"]


def test_numbers_that_go_wrong_stop_the_run_and_keep_the_state(run, tmp_path, monkeypatch):
    real = objective.joint_loss
    calls = iter(range(1000))

    def spoiled(*arguments, **options):
        loss, right = real(*arguments, **options)
        return (loss * torch.nan if next(calls) >= 10 else loss), right

    monkeypatch.setattr(objective, "joint_loss", spoiled)
    with pytest.raises(InputError, match=r"loss of base episode 2 is nan.*state of episode 2"):
        run()
    monkeypatch.setattr(objective, "joint_loss", real)
    run(resume=True)
    run("undisturbed")
    assert tensors(tmp_path / "run" / "last") == tensors(tmp_path / "undisturbed" / "last")


def test_held_out_classes_are_said_once_and_never_trained_on(run, caplog, tmp_path):
    with caplog.at_level(logging.WARNING):
        run()
    said = [record.message for record in caplog.records if "held out" in record.message]
    assert said == ["no validation domain was given: 2 of 10 classes are held out for it, chosen by the seed"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"way": 9, "candidates": 20}, "needs 18"),
        ({"episodes": 3, "episodes_per_step": 2}, "multiple of 2"),
        ({"lr": 0.0}, "lr is 0.0"),
        ({"way": 1}, "way is 1"),
        ({"validation_episodes": 6}, "multiple of 4"),
        ({"statistics_images": 1}, "at least 2"),
        ({"trust": 1.0, "adapter": "residual"}, "has none: leave --trust out"),
    ],
)
def test_what_cannot_be_trained_gets_a_sentence_and_leaves_no_folder(run, tmp_path, changes, words):
    with pytest.raises(InputError, match=words):
        run(**changes)
    assert not (tmp_path / "run").exists()


def test_what_is_read_in_depth_is_trained_on_with_pseudo_classes_of_the_last_class_token(
    run, checkpoint_file, tiny, tmp_path
):
    with pytest.raises(InputError, match=r"only by CPLSR's own loss, with the last block among --layers"):
        run("refused", pooling="depth", layers=(0,))
    assert not (tmp_path / "refused").exists()
    run("cls")
    statistics = {file.name: file.stat().st_mtime_ns for file in (cache_folder() / "statistics").iterdir()}
    run("depth", pooling="depth", head="ridge")
    assert {file.name: file.stat().st_mtime_ns for file in (cache_folder() / "statistics").iterdir()} == statistics
    run("plain", pooling="depth", head="ridge", pe=False)
    info = read_adapter_info(tmp_path / "depth")
    assert info.backbone["pooled_layers"] == (0, 1)
    assert info.temperature is None  # no factor of cosines, which prototypes would take over
    written = {name: tensors(tmp_path / name / "last") for name in ("cls", "depth", "plain")}
    assert len(set(written.values())) == 3


def test_pseudo_classes_follow_the_literal_drift_of_their_classes(run, tiny, checkpoint_file, monkeypatch):
    moves, real = [], PseudoEpisodeStream.move

    def move(self, shifts):
        model, images = running[0].backbone, running[0].images
        expected = []
        for turn in range(4):
            for label in range(len(images.classes)):
                of_class = torch.randperm(8, generator=order[label])[:5].sort().values if turn == 0 else kept[label]
                kept[label] = of_class
                pixels = torch.from_numpy(images.pixels[images.labels == label][of_class]).rot90(turn, dims=(-2, -1))
                expected.append((model(pixels) - frozen(pixels)).double().mean(0))
        moves.append((shifts, torch.stack(expected).detach()))
        real(self, shifts)
        assert torch.equal(self.gaussians.means, self._unmoved.means + shifts)

    running, kept = [], {}
    frozen = load_backbone(checkpoint_file, heads=2)
    stream = torch.Generator().manual_seed(0)
    order = dict.fromkeys(range(8), stream)  # one after the other from the same stream
    go = loop.Run.go
    monkeypatch.setattr(loop.Run, "go", lambda self: (running.append(self), go(self))[1])
    monkeypatch.setattr(PseudoEpisodeStream, "move", move)
    run(follow=3, episodes=5)
    assert len(moves) == 1  # before the fourth episode
    shifts, expected = moves[0]
    assert shifts.abs().max() > 1e-4
    assert torch.allclose(shifts, expected, atol=1e-6)


@pytest.mark.parametrize("at_once", [1, 2])
def test_the_averaged_adapter_is_the_literal_mean_over_the_last_part(run, tmp_path, monkeypatch, at_once):
    seen, real = [], loop.Run._episodes

    def kept(self, first, count):
        figures = real(self, first, count)
        seen.append({name: tensor.double().clone() for name, tensor in self.adapter.state_dict().items()})
        return figures

    monkeypatch.setattr(loop.Run, "_episodes", kept)
    run(average=0.5, episodes=8, episodes_per_step=at_once, select="last")
    last = seen[-4 // at_once :]
    for part in ("last", "adapter"):
        stored = load_file(tmp_path / "run" / part / "adapter.safetensors")
        for name, tensor in stored.items():
            assert torch.equal(tensor, (sum(each[name] for each in last) / len(last)).float())


def test_an_adapted_backbone_is_refused(checkpoint_file, tiny, tmp_path):
    from cplsr import attach

    backbone = attach(load_backbone(checkpoint_file, heads=2), "residual")
    with pytest.raises(InputError, match="already"):
        train(backbone, tiny, out=tmp_path / "run", settings=SETTINGS)
    assert adapter_of(backbone).kind == "residual"


def interrupted(run, monkeypatch, **changes):
    """A run that stops with an error in its third episode, after the states of episodes 1 and 2."""
    real = loop.Run._episodes

    def stopped(self, first, at_once):
        if first == 2:
            raise KeyboardInterrupt
        return real(self, first, at_once)

    with monkeypatch.context() as patch:
        patch.setattr(loop.Run, "_episodes", stopped)
        with pytest.raises(KeyboardInterrupt):
            run(**changes)


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
def test_a_run_with_any_optimizer_goes_on_to_the_same_result(run, tmp_path, monkeypatch, optimizer):
    changes = {"optimizer": optimizer, "schedule": "cosine", "warmup": 0.4, "augment": "crop", "weight_decay": 0.1}
    interrupted(run, monkeypatch, **changes)
    run(resume=True, **changes)
    run("undisturbed", **changes)
    for part in ("adapter", "last"):
        assert tensors(tmp_path / "run" / part) == tensors(tmp_path / "undisturbed" / part)


def without_later_settings(folder: Path) -> None:
    """The record of a run as it was before there were these settings."""
    record = json.loads((folder / "run.json").read_text())
    for name in ("optimizer", "objective_lr", "schedule", "warmup", "augment"):
        del record["settings"][name]
    (folder / "run.json").write_text(json.dumps(record))


def test_a_run_from_before_there_were_optimizers_to_choose_goes_on(run, tmp_path, monkeypatch):
    interrupted(run, monkeypatch)
    without_later_settings(tmp_path / "run")
    with pytest.raises(InputError, match=r"other settings \(optimizer: adamw, now sgd\)"):
        run(resume=True, optimizer="sgd")
    run(resume=True)
    run("undisturbed")
    assert tensors(tmp_path / "run" / "last") == tensors(tmp_path / "undisturbed" / "last")


def test_a_run_is_not_validated_in_two_ways(run, tmp_path, monkeypatch):
    interrupted(run, monkeypatch, sst=False)
    without_later_settings(tmp_path / "run")
    with pytest.raises(InputError, match=r"validation episodes: of turned images, now of images as they are"):
        run(resume=True, sst=False)


def test_an_adapter_knows_the_temperature_it_was_trained_with(run, tmp_path):
    run(temperature=5.0, episodes=1)
    assert read_adapter_info(tmp_path / "run").temperature == 5


@pytest.mark.parametrize("harm", ["newest", "newest missing", "no metrics", "damaged metrics"])
def test_a_run_goes_on_to_the_same_result_whatever_was_damaged(run, tmp_path, monkeypatch, caplog, harm):
    interrupted(run, monkeypatch)
    folder = tmp_path / "run"
    newest = folder / "state.safetensors"
    if harm == "newest":
        content = bytearray(newest.read_bytes())
        content[-1] ^= 1
        newest.write_bytes(content)
    elif harm == "newest missing":
        newest.unlink()
    elif harm == "no metrics":
        (folder / "metrics.jsonl").unlink()
    else:
        (folder / "metrics.jsonl").write_bytes(b'\xff\xfe{"episode": 0, "validation": 99.0}\nhalf a li')
    with caplog.at_level(logging.INFO):
        result = run(resume=True)
    assert f"continuing after base episode {1 if harm.startswith('newest') else 2}" in caplog.text
    undisturbed = run("undisturbed")
    for part in ("adapter", "last"):
        assert tensors(folder / part) == tensors(tmp_path / "undisturbed" / part)
    figures = [
        [{k: v for k, v in row.items() if k != "images_per_second"} for row in rows(tmp_path / name)]
        for name in ("run", "undisturbed")
    ]
    assert figures[0] == figures[1]
    assert (result.start_accuracy, result.last_accuracy) == (undisturbed.start_accuracy, undisturbed.last_accuracy)
    assert sorted(path.name for path in folder.iterdir()) == ["adapter", "last", "metrics.jsonl", "run.json"]


def test_a_second_run_into_one_folder_gets_a_sentence_and_disturbs_nothing(run, tmp_path, monkeypatch):
    real = loop.Run._episodes
    said = []

    def meddled(self, first, at_once):
        if first == 2:
            for resume in (False, True):
                with pytest.raises(InputError) as error:
                    run(resume=resume)
                said.append(str(error.value))
        return real(self, first, at_once)

    with monkeypatch.context() as patch:
        patch.setattr(loop.Run, "_episodes", meddled)
        run()
    assert len(said) == 2
    assert all("is being written by another process" in sentence for sentence in said)
    run("undisturbed")
    assert tensors(tmp_path / "run" / "last") == tensors(tmp_path / "undisturbed" / "last")


def test_copied_data_are_the_same_data(checkpoint_file, tiny_folder, tmp_path, monkeypatch):
    import os
    import shutil

    from cplsr.data import decoded_images
    from cplsr.data.open import open_domain
    from cplsr.training import base_statistics

    copied = tmp_path / "copied" / "domain"
    shutil.copytree(tiny_folder, copied, copy_function=shutil.copyfile)
    for file in copied.rglob("*.png"):
        os.utime(file, (1, 1))
    settings = replace(SETTINGS, episodes=1)
    train(load_backbone(checkpoint_file, heads=2), open_domain(tiny_folder), out=tmp_path / "a", settings=settings)
    monkeypatch.setattr(decoded_images, "decode", None)  # all is in the caches
    monkeypatch.setattr(base_statistics, "_compute", None)
    backbone = load_backbone(checkpoint_file, heads=2)
    assert train(backbone, open_domain(copied), out=tmp_path / "a", settings=settings, resume=True).already_finished
    train(backbone, open_domain(copied), out=tmp_path / "b", settings=settings)
    assert tensors(tmp_path / "a" / "last") == tensors(tmp_path / "b" / "last")


def test_every_changed_digit_of_the_image_index_is_noticed(tiny, tmp_path, monkeypatch, caplog):
    from cplsr.data import decoded_images
    from cplsr.processes import Processes

    def opened():
        return decoded_images.decoded_images(tiny, 16, processes=Processes(), workers=0)

    labels = opened().labels.tolist()
    (index,) = (tmp_path / "cplsr-cache" / "images").glob("*/index.json")
    whole = index.read_bytes()
    decoded = []
    real = decoded_images.decode
    monkeypatch.setattr(decoded_images, "decode", lambda *a, **k: decoded.append(1) or real(*a, **k))
    digits = [place for place, byte in enumerate(whole) if chr(byte).isdigit()]
    for place in digits[:: len(digits) // 25]:
        index.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert opened().labels.tolist() == labels
        assert index.read_bytes() == whole
    assert len(decoded) == len(digits[:: len(digits) // 25])
    assert "are damaged and are made again" in caplog.text


def test_statistics_and_images_are_computed_once_and_damage_is_noticed(run, tmp_path, caplog, monkeypatch):
    from cplsr.data import decoded_images
    from cplsr.environment import cache_folder
    from cplsr.training import base_statistics

    run("a")
    decoded, computed = [], []
    real_decode, real_compute = decoded_images.decode, base_statistics._compute
    monkeypatch.setattr(decoded_images, "decode", lambda *a, **k: decoded.append(1) or real_decode(*a, **k))
    monkeypatch.setattr(base_statistics, "_compute", lambda *a, **k: computed.append(1) or real_compute(*a, **k))
    run("b")
    assert (len(decoded), len(computed)) == (0, 0)
    for pattern in ("images/*/pixels.u8", "statistics/*.safetensors"):
        for file in cache_folder().glob(pattern):
            content = bytearray(file.read_bytes())
            content[-5] ^= 0xFF
            file.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        run("c")
    assert (len(decoded), len(computed)) == (2, 1)
    assert "damaged" in caplog.text
    assert tensors(tmp_path / "a" / "last") == tensors(tmp_path / "c" / "last")


@pytest.mark.parametrize("changes", VARIANTS)
def test_a_variant_goes_on_to_the_same_bits_and_does_something(run, tmp_path, monkeypatch, changes):
    run("undisturbed", **changes)
    interrupted(run, monkeypatch, **changes)
    run(resume=True, **changes)
    written = tensors(tmp_path / "undisturbed" / "last")
    assert tensors(tmp_path / "run" / "last") == written
    run("usual", pooling=changes.get("pooling", "cls"))
    assert tensors(tmp_path / "usual" / "last") != written
