"""ONNX graphs run by ONNX Runtime, at batch sizes the exporter has not seen. Each takes seconds, so they are few."""

import json
import sys
from pathlib import Path
from typing import ClassVar

import onnx
import onnxruntime
import pytest
import torch
from oracles.closeness import relative_error
from oracles.disturbed import disturbed

from cplsr.adapters.base import Adapter
from cplsr.backbones.load import load_backbone
from cplsr.errors import InputError
from cplsr.export.to_onnx import LinearHead, export_onnx


def run(path: Path, pixels: torch.Tensor) -> torch.Tensor:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {"pixels": pixels.numpy()})[0])


def metadata(path: Path) -> dict:
    return {entry.key: json.loads(entry.value) for entry in onnx.load(path).metadata_props}


def test_a_folded_adapter_quietly(tmp_path: Path, backbone, capfd, recwarn):
    disturbed(backbone, "coalescent")
    done = export_onnx(backbone, tmp_path / "new" / "x.onnx")
    assert done.merged
    for batch in (1, 2, 5):
        images = torch.randn(batch, 3, 32, 32)
        assert relative_error(run(done.path, images), backbone(images)) < 1e-4
    model = onnx.load(done.path)
    assert [place.name for place in (*model.graph.input, *model.graph.output)] == ["pixels", "embedding"]
    told = metadata(done.path)
    assert (told["mean"], told["std"]) == ([0.5] * 3, [0.5] * 3)
    assert (told["image_size"], told["resize_to"], told["input"]) == (32, 36, "normalized pixels, float32")
    assert told["adapter"]["kind"] == "coalescent"
    assert "classes" not in told
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["x.onnx"]
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list


def prototype_head(classes, prototypes):
    units = prototypes / prototypes.norm(dim=1, keepdim=True)
    return LinearHead(classes, torch.ones(prototypes.shape[1]), units.T, torch.zeros(len(classes)), temperature=7.0)


@pytest.mark.parametrize("kind", ["attn_scale", "soft_prompts"])
def test_a_classifier_from_raw_pixels_with_an_adapter_that_cannot_be_folded(tmp_path: Path, checkpoint_file, kind):
    """Probabilities are those of softmax(temperature · cos), written out here."""
    backbone = disturbed(
        load_backbone(checkpoint_file, 48, heads=2, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4), pooling="mean"),
        kind,
    )
    prototypes = torch.randn(3, 64, generator=torch.Generator().manual_seed(2))
    head = prototype_head(("Käfer", "a, b", "c"), prototypes)
    done = export_onnx(backbone, tmp_path / "x.onnx", raw_pixels=True, head=head)
    assert not done.merged
    told = metadata(done.path)
    assert (told["classes"], told["temperature"], told["input"]) == (["Käfer", "a, b", "c"], 7.0, "raw pixels, uint8")
    for batch in (1, 2, 5):
        pixels = torch.randint(0, 256, (batch, 3, 48, 48), dtype=torch.uint8)
        colors = [torch.tensor(values).view(3, 1, 1) for values in ((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))]
        embeddings = backbone((pixels / 255 - colors[0]) / colors[1]).detach()
        rows = []
        for embedding in embeddings:
            cosines = [embedding @ p / (embedding.norm() * p.norm()) for p in prototypes]
            powers = torch.stack([torch.exp(7.0 * cosine) for cosine in cosines])
            rows.append(powers / powers.sum())
        assert relative_error(run(done.path, pixels), torch.stack(rows)) < 1e-4


@pytest.mark.parametrize(("family", "kind", "layers"), [("vit", "soft_prompts", None), ("dinov3", "coalescent", [0])])
def test_depth_embeddings_and_a_classifier_on_them(tmp_path: Path, all_families, family, kind, layers):
    backbone = disturbed(load_backbone(all_families[family], pooling="depth", layers=layers), kind)
    prototypes = torch.randn(3, backbone.embedding_dim, generator=torch.Generator().manual_seed(2))
    head = prototype_head(("a", "b", "c"), prototypes)
    images = torch.randn(5, 3, 32, 32)
    embeddings = backbone(images).detach()
    assert relative_error(run(export_onnx(backbone, tmp_path / "x.onnx").path, images), embeddings) < 1e-4
    assert metadata(tmp_path / "x.onnx")["backbone"]["pooled_layers"] == (layers or [0, 1])
    wanted = (7 * torch.cosine_similarity(embeddings[:, None], prototypes, dim=-1)).softmax(-1)
    done = export_onnx(backbone, tmp_path / "y.onnx", head=head)
    assert relative_error(run(done.path, images), wanted) < 1e-4


def test_a_coalescent_projection_behind_a_rotary_position(tmp_path: Path, all_families):
    backbone = disturbed(load_backbone(all_families["dinov3"]), "coalescent")
    done = export_onnx(backbone, tmp_path / "x.onnx")
    assert not done.merged
    images = torch.randn(5, 3, 32, 32)
    assert relative_error(run(done.path, images), backbone(images)) < 1e-4


class _OneBatchSize(Adapter):
    """Asks for the batch size as a plain number, which fixes it in a graph."""

    kind: ClassVar[str] = "one_batch_size"

    def __init__(self):
        super().__init__()
        self.options = {}

    def enter(self, layer, tokens):
        return tokens + torch.ones(len(tokens), 1, 1)


def test_a_graph_for_one_batch_size_only_is_not_written(tmp_path: Path, backbone):
    backbone.adapter = _OneBatchSize()
    with pytest.raises(InputError, match=r"batches of 2 images only \(adapter: one_batch_size\)"):
        export_onnx(backbone, tmp_path / "x.onnx")
    assert not (tmp_path / "x.onnx").exists()


def test_prototypes_that_do_not_fit_are_refused_before_the_work(tmp_path: Path, backbone):
    head = prototype_head(("a", "b"), torch.ones(2, 63))
    with pytest.raises(InputError, match=r"\(63, 2\).*\(64, 2\)"):
        export_onnx(backbone, tmp_path / "x.onnx", head=head)


def test_more_than_a_file_can_hold_is_refused(tmp_path: Path, backbone, monkeypatch):
    monkeypatch.setattr("cplsr.export.to_onnx._LARGEST_FILE", 1000)
    with pytest.raises(InputError, match=r"GB.*--to transformers"):
        export_onnx(backbone, tmp_path / "x.onnx")


def test_a_missing_extra_is_named(tmp_path: Path, backbone, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(InputError, match=r"onnxscript.*cplsr\[onnx\]"):
        export_onnx(backbone, tmp_path / "x.onnx")
