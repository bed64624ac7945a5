"""Several views of an image: the mean of their embeddings, by every way that an embedding is made, kept or refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from oracles.closeness import relative_error

from cplsr import evaluate, export_onnx, export_timm, export_transformers, load_backbone, open_domain, train
from cplsr.backbones.views import views_of
from cplsr.classifier.few_shot_classifier import FewShotClassifier
from cplsr.errors import InputError
from cplsr.evaluation.cache import EmbeddingKey
from cplsr.settings.episodes import EpisodeSettings
from cplsr.settings.training import TrainingSettings


def seen(images: torch.Tensor, views: str) -> list[torch.Tensor]:
    """The eight symmetries of a square, written out by indices."""
    size = images.shape[-1]
    rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    last, found = size - 1, []
    for mirrored in (False, True)[: 1 if views == "plain" else 2]:
        i, j = rows, columns
        for _ in range(4 if views == "turned" else 1):
            found.append(images[..., i, last - j if mirrored else j])
            i, j = j, last - i  # counter-clockwise
    return found


@pytest.mark.parametrize("views", ["plain", "mirrored", "turned"])
def test_views_are_the_symmetries_of_a_square_the_image_first(views):
    images = torch.randn(2, 3, 5, 5)
    given = list(views_of(images, views))
    assert len(given) == {"plain": 1, "mirrored": 2, "turned": 8}[views]
    torch.testing.assert_close(given[0], images)
    remaining = [view.flatten().tolist() for view in given]
    for wanted in seen(images, views):
        remaining.remove(wanted.flatten().tolist())
    assert remaining == []


@pytest.mark.parametrize("pooling", ["cls", "depth"])
@torch.inference_mode()
def test_an_embedding_is_the_mean_over_the_views(checkpoint_file, pooling):
    backbone = load_backbone(checkpoint_file, pooling=pooling)
    images = torch.randint(0, 256, (3, 3, backbone.image_size, backbone.image_size), dtype=torch.uint8)
    for views in ("mirrored", "turned"):
        wanted = sum(backbone(view.contiguous()).double() for view in seen(images, views)) / len(seen(images, views))
        assert relative_error(load_backbone(checkpoint_file, pooling=pooling, views=views)(images), wanted) <= 1e-5
    turned = load_backbone(checkpoint_file, pooling=pooling, views="turned")
    assert relative_error(turned(torch.rot90(images, 1, (-2, -1))), turned(images)) <= 1e-5
    assert relative_error(backbone(torch.rot90(images, 1, (-2, -1))), backbone(images)) > 1e-3


def test_views_are_part_of_what_an_embedding_is_known_by(checkpoint_file):
    plain, turned = (EmbeddingKey.of(load_backbone(checkpoint_file, views=views)) for views in ("plain", "turned"))
    assert plain.folder_name == replace(turned, views="plain").folder_name != turned.folder_name
    old = {name: value for name, value in vars(plain).items() if name != "views"}  # vectors of before there were views
    plain.require(old, checkpoint_file)
    with pytest.raises(InputError, match="views plain where turned is wanted"):
        turned.require(old, checkpoint_file)
    assert "views" not in load_backbone(checkpoint_file).description()
    with pytest.raises(InputError, match="views 'upside' are not known: give plain, mirrored, turned"):
        load_backbone(checkpoint_file, views="upside")


def test_an_evaluation_says_the_views_in_the_names_of_its_rows(checkpoint_file):
    settings = EpisodeSettings(shots=(1,), way=2, query=2, episodes=20)
    backbone = load_backbone(checkpoint_file, 32, pooling="depth", views="mirrored")
    results = evaluate(backbone, {"leaf": some("leaf")}, heads=("prototypes", "ridge"), settings=settings, workers=0)
    assert list(results.methods) == ["frozen depth mirrored", "frozen depth mirrored ridge"]
    assert results.settings["backbone"]["views"] == "mirrored"


def some(name: str):
    domain = open_domain(f"procedural:{name}")
    return domain.select(np.concatenate([np.flatnonzero(domain.labels == label)[:5] for label in (0, 1)]))


def test_a_classifier_keeps_its_views(checkpoint_file, tmp_path):
    examples = some("leaf")
    classifier = FewShotClassifier(checkpoint_file, image_size=32, views="turned", workers=0).fit(examples)
    again = FewShotClassifier.load(classifier.save(tmp_path / "model"), workers=0)
    assert again.backbone_.views == "turned"
    np.testing.assert_allclose(again.predict_proba(examples), classifier.predict_proba(examples), rtol=1e-5)
    with pytest.raises(InputError, match="was fitted with views turned, but the backbone given has None"):
        FewShotClassifier.load(tmp_path / "model", backbone=load_backbone(checkpoint_file, 32, pooling="depth"))
    with pytest.raises(InputError, match="views='mirrored' was given with a backbone loaded with 'plain'"):
        FewShotClassifier(load_backbone(checkpoint_file, 32), views="mirrored").fit(examples)


def test_training_and_ordinary_weights_look_once(checkpoint_file, tmp_path):
    backbone = load_backbone(checkpoint_file, 32, views="turned")
    with pytest.raises(InputError, match="training looks at every image once"):
        train(backbone, some("leaf"), out=tmp_path / "run", settings=TrainingSettings(episodes=1))
    for export in (export_transformers, export_timm):
        with pytest.raises(InputError, match="ordinary weights look at an image once"):
            export(backbone, tmp_path / "plain.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint_file.name]


def test_a_graph_holds_all_views(checkpoint_file, tmp_path):
    pytest.importorskip("onnxruntime")
    exported = export_onnx(load_backbone(checkpoint_file, 32, views="turned"), tmp_path / "turned.onnx")
    assert exported.difference < 1e-4
