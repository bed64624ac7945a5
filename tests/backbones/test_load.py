"""Every kind of source, and what is said when it is wrong."""

import json
from pathlib import Path

import pytest
import torch
from oracles.random_vit import random_checkpoint
from safetensors.torch import load_file, save_file

from cplsr.backbones.load import load_backbone
from cplsr.errors import InputError

TENSORS = random_checkpoint(dim=64, layers=2, patch=8, image=32)
IMAGENET = (0.485, 0.456, 0.406)


def test_the_same_weights_are_the_same_backbone_however_they_are_stored(tmp_path: Path):
    save_file(TENSORS, tmp_path / "vit_a.safetensors")
    torch.save(TENSORS, tmp_path / "vit_b.pth")
    prefixed = {f"module.backbone.{name}": tensor for name, tensor in TENSORS.items()}
    prefixed |= {"module.head.mlp.0.weight": torch.zeros(3, 64)}
    torch.save({"teacher": prefixed, "epoch": 3}, tmp_path / "vit_c.pt")
    first = load_backbone(tmp_path / "vit_a.safetensors")
    first.model.save_pretrained(tmp_path / "folder")
    (tmp_path / "folder" / "preprocessor_config.json").write_text(
        json.dumps({"image_mean": [0.5] * 3, "image_std": [0.5] * 3})
    )
    images = torch.randn(2, 3, 32, 32)
    for source in ("vit_b.pth", "vit_c.pt", "folder"):
        other = load_backbone(tmp_path / source)
        assert other.fingerprint == first.fingerprint
        assert torch.equal(other(images), first(images))
    changed = {**TENSORS, "norm.bias": TENSORS["norm.bias"] + 1e-3}
    save_file(changed, tmp_path / "vit_d.safetensors")
    assert load_backbone(tmp_path / "vit_d.safetensors").fingerprint != first.fingerprint


@pytest.mark.parametrize(
    ("name", "mean"),
    [("vit_x", (0.5,) * 3), ("deit3_x", (0.5,) * 3), ("dino_deitsmall16_pretrain", IMAGENET), ("my_deit", IMAGENET)],
)
def test_colors_by_file_name(tmp_path: Path, name, mean, recwarn):
    save_file(TENSORS, tmp_path / f"{name}.safetensors")
    assert load_backbone(tmp_path / f"{name}.safetensors").mean == mean
    assert not [w for w in recwarn if w.category is UserWarning]


def test_an_unknown_file_name_means_imagenet_colors_with_a_warning(tmp_path: Path):
    save_file(TENSORS, tmp_path / "mine.safetensors")
    with pytest.warns(UserWarning, match=r"mine\.safetensors\.json"):
        assert load_backbone(tmp_path / "mine.safetensors").mean == IMAGENET


def test_given_colors_silence_the_warning(tmp_path: Path, recwarn):
    save_file(TENSORS, tmp_path / "mine.safetensors")
    backbone = load_backbone(tmp_path / "mine.safetensors", mean=(0.1, 0.2, 0.3), std=(1.0, 1.0, 1.0))
    assert (backbone.mean, backbone.std) == ((0.1, 0.2, 0.3), (1, 1, 1))
    assert not [w for w in recwarn if w.category is UserWarning]


def test_a_sidecar_beats_the_file_name_and_the_caller_beats_the_sidecar(tmp_path: Path):
    save_file(TENSORS, tmp_path / "vit_x.safetensors")
    (tmp_path / "vit_x.safetensors.json").write_text('{"mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6], "heads": 4}')
    backbone = load_backbone(tmp_path / "vit_x.safetensors")
    assert (backbone.mean, backbone.std, backbone.heads) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6), 4)
    backbone = load_backbone(tmp_path / "vit_x.safetensors", heads=2, mean=(0.0, 0.0, 0.0))
    assert (backbone.mean, backbone.std, backbone.heads) == ((0, 0, 0), (0.4, 0.5, 0.6), 2)


def test_hub_names_are_found_in_the_cache(tmp_path: Path, checkpoint_file: Path, monkeypatch):
    """A cache in the layout of huggingface_hub, made by hand: what a download would have left."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    repo = tmp_path / "hub" / "models--someone--some-vit"
    snapshot = repo / "snapshots" / commit
    load_backbone(checkpoint_file, heads=2).model.save_pretrained(snapshot)
    (snapshot / "preprocessor_config.json").write_text('{"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.4, 0.4]}')
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("transformers.utils.hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    backbone = load_backbone("someone/some-vit")
    assert backbone.mean == (0.1, 0.2, 0.3)
    assert backbone.fingerprint == load_backbone(checkpoint_file, heads=2).fingerprint


def test_offline_and_not_cached_is_one_sentence(tmp_path: Path):
    with pytest.raises(InputError) as caught:
        load_backbone("facebook/dino-vits16")
    message = str(caught.value)
    assert "facebook/dino-vits16" in message
    assert "cache" in message
    assert "embedded" in message
    assert "\n" not in message


class _Harmful:
    def __reduce__(self):
        return (print, ("code ran",))


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path: Path, capsys):
    torch.save({"state_dict": TENSORS, "args": _Harmful()}, tmp_path / "vit_x.pth")
    with pytest.raises(InputError, match="could run code"):
        load_backbone(tmp_path / "vit_x.pth")
    assert "code ran" not in capsys.readouterr().out


def test_missing_and_unexpected_tensors_are_listed(tmp_path: Path):
    without = {name: tensor for name, tensor in TENSORS.items() if name != "blocks.1.norm2.bias"}
    save_file({**without, "blocks.1.extra": torch.zeros(1)}, tmp_path / "vit_x.safetensors")
    with pytest.raises(InputError, match=r"layernorm_after\.bias.*extra"):
        load_backbone(tmp_path / "vit_x.safetensors")


def test_classification_heads_are_left_out(tmp_path: Path):
    heads = {"head.weight": torch.zeros(10, 64), "head.bias": torch.zeros(10), "fc.weight": torch.zeros(1)}
    save_file({**TENSORS, **heads}, tmp_path / "vit_x.safetensors")
    load_backbone(tmp_path / "vit_x.safetensors")


def _no_tensors(path: Path) -> None:
    torch.save({"epoch": 3}, path)


def _not_a_vit(path: Path) -> None:
    torch.save({"conv1.weight": torch.zeros(3)}, path)


def _cut_short(path: Path) -> None:
    torch.save(TENSORS, path)
    path.write_bytes(path.read_bytes()[:1000])


def _text(path: Path) -> None:
    path.write_text("not found")


def _empty(path: Path) -> None:
    path.touch()


@pytest.mark.parametrize("spoil", [_no_tensors, _not_a_vit, _cut_short, _text, _empty])
def test_files_that_are_no_checkpoint_get_a_sentence(tmp_path: Path, spoil):
    spoil(tmp_path / "vit_x.pth")
    with pytest.raises(InputError):
        load_backbone(tmp_path / "vit_x.pth")


def test_a_damaged_safetensors_file_gets_a_sentence(tmp_path: Path):
    (tmp_path / "vit_x.safetensors").write_bytes(b"garbage" * 100)
    with pytest.raises(InputError, match="download complete"):
        load_backbone(tmp_path / "vit_x.safetensors")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("/nowhere/vit.pth", "no file or folder"),
        ("./nowhere", "no file or folder"),
        ("nowhere.safetensors", "no file or folder"),
        ("a/b/c", "no file or folder"),
    ],
)
def test_paths_that_do_not_exist(source, words):
    with pytest.raises(InputError, match=words):
        load_backbone(source)


def test_a_folder_that_is_no_model_and_a_file_that_is_no_checkpoint(tmp_path: Path):
    (tmp_path / "vit_x.pth").touch()
    with pytest.raises(InputError, match=r"without config.json.*vit_x\.pth"):
        load_backbone(tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=r"ends in '\.txt'"):
        load_backbone(tmp_path / "notes.txt")


def test_another_kind_of_model_lists_the_known_ones(tmp_path: Path):
    (tmp_path / "config.json").write_text('{"model_type": "resnet"}')
    with pytest.raises(InputError, match=r"'resnet'.*dinov2"):
        load_backbone(tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"heads": 5}, "5 heads do not divide"),
        ({"std": (0.5, 0.0, 0.5)}, "above 0"),
        ({"pooling": "max"}, "pooling 'max'"),
        ({"precision": "fp8"}, "precision 'fp8'"),
        ({"device": "tpu9"}, "device 'tpu9'"),
    ],
)
def test_wrong_options_get_a_sentence(checkpoint_file: Path, options, words):
    with pytest.raises(InputError, match=words):
        load_backbone(checkpoint_file, **options)


def test_a_width_that_hides_its_heads_asks_for_them(tmp_path: Path):
    save_file(random_checkpoint(dim=96, layers=1, patch=8, image=32), tmp_path / "vit_x.safetensors")
    with pytest.raises(InputError, match="--heads"):
        load_backbone(tmp_path / "vit_x.safetensors")
    assert load_backbone(tmp_path / "vit_x.safetensors", heads=3).head_dim == 32


def test_weights_that_are_missing_from_a_folder_are_not_made_up(tmp_path: Path, checkpoint_file: Path):
    load_backbone(checkpoint_file, heads=2).model.save_pretrained(tmp_path / "folder")
    file = tmp_path / "folder" / "model.safetensors"
    tensors = load_file(file)
    save_file({name: t for name, t in tensors.items() if ".0." not in name}, file, metadata={"format": "pt"})
    with pytest.raises(InputError, match="would be random"):
        load_backbone(tmp_path / "folder")


@pytest.mark.parametrize(
    "content", [b"\x80\x02.", b"\x80\x02]s.", b"\x80\x02X\xff\xff\xff\x7f", b"\x00" * 100, b"PK\x03\x04"]
)
def test_bytes_that_are_no_checkpoint_are_a_sentence_whatever_the_reader_makes_of_them(tmp_path: Path, content: bytes):
    path = tmp_path / "vit.pth"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"checkpoint|more than tensors"):
        load_backbone(path, heads=2)
