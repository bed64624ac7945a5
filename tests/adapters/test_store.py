"""Adapters to disk and back, and what is said of damaged, foreign and misfitting ones."""

import json
from pathlib import Path

import pytest
import torch
from oracles.random_vit import random_checkpoint
from safetensors.torch import save_file
from torch import Tensor

from cplsr import attach, detach, load_adapter, load_backbone, push_adapter, save_adapter
from cplsr.adapters.attach import adapter_of
from cplsr.adapters.base import fingerprint
from cplsr.adapters.kinds import KINDS
from cplsr.adapters.store import average_adapters, find_adapter, read_adapter_info
from cplsr.backbones.backbone import Backbone
from cplsr.errors import InputError

OPTIONS = {
    "coalescent": {"sharing": "shared", "layers": [1]},
    "soft_prompts": {"length": 3, "mode": "replace"},
    "attention_temperature": {
        "temperature": 0.5,
        "class_token_blocks": 1,
        "adapter": "lora",
        "adapter_options": {"rank": 2},
        "seed": 3,
    },
}


@pytest.fixture
def adapted(backbone: Backbone) -> Backbone:
    attach(backbone, "coalescent", init="near_identity")
    return backbone


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_is_saved_comes_back_bit_for_bit(checkpoint_file: Path, tmp_path: Path, kind):
    backbone = attach(load_backbone(checkpoint_file, heads=2), kind, **OPTIONS.get(kind, {}))
    for parameter in adapter_of(backbone).parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    images = torch.randn(2, 3, 32, 32)
    save_adapter(backbone, tmp_path / "a", shot=5, metrics={"accuracy": 61.5})
    other = load_backbone(checkpoint_file, heads=2)
    assert load_adapter(other, tmp_path / "a") is other
    assert torch.equal(other(images), backbone(images))
    assert other.adapter_fingerprint == backbone.adapter_fingerprint
    stored = read_adapter_info(tmp_path / "a")
    assert (stored.kind, stored.info) == (kind, {"shot": 5, "metrics": {"accuracy": 61.5}})
    assert stored.backbone["fingerprint"] == backbone.fingerprint
    assert stored.versions["torch"] == torch.__version__.split("+")[0] or "torch" in stored.versions


def test_options_that_came_later_change_no_fingerprint(adapted: Backbone, checkpoint_file: Path, tmp_path: Path):
    path = save_adapter(adapted, tmp_path / "a")
    tensors = adapter_of(adapted).state_dict()
    description = json.loads((path / "adapter.json").read_text())
    for name in ("rank", "values"):
        del description["options"][name]
    description["fingerprint"] = fingerprint("coalescent", description["options"], tensors)
    (path / "adapter.json").write_text(json.dumps(description))
    loaded = load_adapter(load_backbone(checkpoint_file, heads=2), path)
    assert loaded.adapter_fingerprint == description["fingerprint"]
    assert read_adapter_info(save_adapter(loaded, tmp_path / "b")).fingerprint == description["fingerprint"]


def test_a_run_folder_and_an_adapter_folder_are_both_accepted(adapted: Backbone, tmp_path: Path):
    save_adapter(adapted, tmp_path / "run" / "adapter")
    assert find_adapter(tmp_path / "run") == find_adapter(tmp_path / "run" / "adapter") == tmp_path / "run" / "adapter"


def test_saving_again_replaces_and_leaves_nothing_behind(adapted: Backbone, tmp_path: Path):
    save_adapter(adapted, tmp_path / "a", step=1)
    save_adapter(adapted, tmp_path / "a", step=2)
    assert read_adapter_info(tmp_path / "a").info == {"step": 2}
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_another_folder_is_not_overwritten(adapted: Backbone, tmp_path: Path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(InputError, match="not overwritten"):
        save_adapter(adapted, tmp_path / "photos")
    assert (tmp_path / "photos" / "cat.jpg").exists()


def test_a_failed_save_leaves_the_old_one_whole(adapted: Backbone, tmp_path: Path):
    save_adapter(adapted, tmp_path / "a", step=1)
    with pytest.raises(TypeError):
        save_adapter(adapted, tmp_path / "a", step=object())
    with pytest.raises(ValueError, match="Out of range"):
        save_adapter(adapted, tmp_path / "a", loss=float("nan"))
    assert read_adapter_info(tmp_path / "a").info == {"step": 1}
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_nothing_to_save_is_an_error(backbone: Backbone, tmp_path: Path):
    with pytest.raises(InputError, match="no adapter"):
        save_adapter(backbone, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_other_weights_are_a_warning(adapted: Backbone, tmp_path: Path):
    save_adapter(adapted, tmp_path / "a")
    save_file(random_checkpoint(dim=64, layers=2, patch=8, image=32, seed=9), tmp_path / "vit_other.safetensors")
    other = load_backbone(tmp_path / "vit_other.safetensors", heads=2)
    with pytest.warns(UserWarning, match=r"vit_random.*vit_other"):
        load_adapter(other, tmp_path / "a")
    assert other.adapter is not None


def test_the_same_weights_at_another_size_are_no_warning(adapted: Backbone, checkpoint_file, tmp_path, recwarn):
    save_adapter(adapted, tmp_path / "a")
    load_adapter(load_backbone(checkpoint_file, 48, heads=2), tmp_path / "a")
    assert not [w for w in recwarn if w.category is UserWarning]


def test_other_shapes_are_an_error_that_names_both(adapted: Backbone, tmp_path: Path):
    save_adapter(adapted, tmp_path / "a")
    save_file(random_checkpoint(dim=128, layers=2, patch=8, image=32), tmp_path / "vit_wide.safetensors")
    other = load_backbone(tmp_path / "vit_wide.safetensors")
    with pytest.raises(InputError, match=r"\(2, 32, 32\).*\(2, 64, 64\)"):
        load_adapter(other, tmp_path / "a")
    assert other.adapter is None


def test_an_adapter_that_is_there_already_stays(adapted: Backbone, tmp_path: Path):
    stored, carried = save_adapter(adapted, tmp_path / "a"), adapted.adapter
    with pytest.raises(InputError, match="'coalescent' adapter already"):
        load_adapter(adapted, stored)
    assert adapted.adapter is carried
    assert all(parameter.requires_grad for parameter in adapter_of(adapted).parameters())


def test_attn_scale_at_another_size_is_an_error(backbone: Backbone, checkpoint_file: Path, tmp_path: Path):
    save_adapter(attach(backbone, "attn_scale"), tmp_path / "a")
    with pytest.raises(InputError, match=r"\(2, 17, 17\).*\(2, 37, 37\)"):
        load_adapter(load_backbone(checkpoint_file, 48, heads=2), tmp_path / "a")


def _cut(folder: Path) -> None:
    file = folder / "adapter.safetensors"
    file.write_bytes(file.read_bytes()[:-7])


def _remove_tensors(folder: Path) -> None:
    (folder / "adapter.safetensors").unlink()


def _no_json(folder: Path) -> None:
    (folder / "adapter.json").write_text("{")


def _no_kind(folder: Path) -> None:
    (folder / "adapter.json").write_text('{"format": 1}')


def _future(folder: Path) -> None:
    file = folder / "adapter.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 99}))


def _no_seed(folder: Path) -> None:
    file = folder / "adapter.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "options": {**content["options"], "seed": None}}))


@pytest.mark.parametrize("spoil", [_cut, _remove_tensors, _no_json, _no_kind, _future, _no_seed])
def test_damage_gets_a_sentence(adapted: Backbone, tmp_path: Path, spoil):
    save_adapter(adapted, tmp_path / "a")
    detach(adapted)
    spoil(tmp_path / "a")
    with pytest.raises(InputError):
        load_adapter(adapted, tmp_path / "a")
    assert adapted.adapter is None


@pytest.mark.parametrize("source", ["./nowhere", "/nowhere/at/all", "one", "a/b/c"])
def test_a_place_without_an_adapter_gets_a_sentence(source):
    with pytest.raises(InputError, match="no adapter at"):
        find_adapter(source)


@pytest.mark.parametrize("source", ["someone/adapter", "hf:someone/adapter"])
def test_offline_and_not_cached_gets_a_sentence(source):
    with pytest.raises(InputError, match=r"'someone/adapter'.*cache.*HF_HUB_OFFLINE"):
        find_adapter(source)


def test_the_hub_cache_is_read(adapted: Backbone, tmp_path: Path, monkeypatch):
    """A cache in the layout of huggingface_hub, made by hand: what a download would have left."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    repo = tmp_path / "hub" / "models--someone--adapter"
    save_adapter(adapted, repo / "snapshots" / commit)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    assert read_adapter_info("hf:someone/adapter").kind == "coalescent"


def test_pushing_uploads_the_two_files(adapted: Backbone, tmp_path: Path, monkeypatch):
    calls = {}

    class FakeApi:
        def __init__(self, token=None):
            calls["token"] = token

        def create_repo(self, repository, private, exist_ok):
            calls["created"] = (repository, private, exist_ok)

        def upload_folder(self, repo_id, folder_path, allow_patterns, commit_message):
            calls["uploaded"] = (repo_id, sorted(allow_patterns), sorted(p.name for p in Path(folder_path).iterdir()))
            return "address"

    monkeypatch.setattr("huggingface_hub.HfApi", FakeApi)
    save_adapter(adapted, tmp_path / "run" / "adapter")
    assert push_adapter(tmp_path / "run", "someone/adapter", private=True) == "address"
    files = ["adapter.json", "adapter.safetensors"]
    assert calls == {
        "token": None,
        "created": ("someone/adapter", True, True),
        "uploaded": ("someone/adapter", files, files),
    }


def test_pushing_offline_gets_a_sentence(adapted: Backbone, tmp_path: Path):
    save_adapter(adapted, tmp_path / "a")
    with pytest.raises(InputError, match="could not be pushed"):
        push_adapter(tmp_path / "a", "someone/adapter")


@pytest.mark.parametrize("constraint", ["free", "mahalanobis"])
def test_averaged_adapters_have_the_mean_of_every_projection(checkpoint_file, tmp_path, constraint):
    expected: dict[int, Tensor] = {}
    for seed in range(3):
        options = {"constraint": constraint, "init": "near_identity", "seed": seed}
        backbone = attach(load_backbone(checkpoint_file, heads=2), "coalescent", **options)
        save_adapter(backbone, tmp_path / str(seed), shot=5)
        for layer, C in adapter_of(backbone).projections().items():
            expected[layer] = expected.get(layer, 0) + C.detach().double() / 3
    mean = average_adapters([tmp_path / str(seed) for seed in range(3)], tmp_path / "mean")
    loaded = load_adapter(load_backbone(checkpoint_file, heads=2), mean)
    assert read_adapter_info(mean).shot == 5
    assert read_adapter_info(mean).fingerprint == loaded.adapter_fingerprint
    for layer, C in adapter_of(loaded).projections().items():
        assert torch.allclose(C.double(), expected[layer], atol=1e-6)


def test_adapters_that_are_not_alike_are_not_averaged(checkpoint_file, tmp_path):
    kinds = (("a", "coalescent", {}), ("b", "coalescent", {"sharing": "shared"}), ("c", "lora", {}))
    for name, kind, options in (*kinds, ("d", "coalescent", {"rank": 2})):
        save_adapter(attach(load_backbone(checkpoint_file, heads=2), kind, **options), tmp_path / name)
    with pytest.raises(InputError, match="differ in kind, options, shapes or backbone"):
        average_adapters([tmp_path / "a", tmp_path / "b"], tmp_path / "mean")
    with pytest.raises(InputError, match="only coalescent projections are averaged"):
        average_adapters([tmp_path / "c", tmp_path / "c"], tmp_path / "mean")
    with pytest.raises(InputError, match="projections of rank 2, whose mean has a higher one"):
        average_adapters([tmp_path / "d", tmp_path / "d"], tmp_path / "mean")
    with pytest.raises(InputError, match="give at least two"):
        average_adapters([tmp_path / "a"], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
