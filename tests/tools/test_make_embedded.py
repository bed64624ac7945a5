"""The distillation of the embedded backbone, on random networks and colored squares."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from oracles.random_vit import random_checkpoint
from PIL import Image
from safetensors.torch import save_file

import make_embedded
from cplsr.backbones.load import load_backbone
from cplsr.errors import InputError

RECIPE = make_embedded.Recipe(image_size=32, layers=2, procedural_images=0, alone=16, runs=16, batch=8, warmup=1)


@pytest.fixture(scope="module")
def teacher_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("teacher") / "teacher.safetensors"
    save_file(random_checkpoint(dim=16, layers=4, patch=16, image=64), path)
    path.with_name(path.name + ".json").write_text(json.dumps({"heads": 2, "mean": [0.5] * 3, "std": [0.5] * 3}))
    return path


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    for name in "ab":
        (folder / name).mkdir()
        for number in range(10):
            pixels = random.integers(0, 256, (24, 24, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def lesson(teacher, student_layers, run):
    pixels = torch.randint(0, 256, (6, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return make_embedded.teach(teacher, pixels, torch.tensor([2, 0]), student_layers, run)


@pytest.mark.parametrize("run", [0, 1, 3])
def test_a_student_that_is_the_teacher_has_nothing_to_learn_at_any_stage(teacher_file, run):
    teacher = load_backbone(teacher_file, image_size=32)
    loss, missed = make_embedded.learn(teacher.model, lesson(teacher, 4, run))
    assert loss < 1e-8
    assert missed.shape == (5, 2)


def test_a_block_alone_is_not_blamed_for_the_blocks_before_it(teacher_file):
    teacher = load_backbone(teacher_file, image_size=32)
    with torch.no_grad():
        teacher_of_half = lesson(teacher, 2, 1)
        student = make_embedded.make_student(teacher, RECIPE)
        alone = make_embedded.learn(student, teacher_of_half)[1]
        student.layers[0].mlp.fc1.weight.mul_(3)
        spoilt = make_embedded.learn(student, teacher_of_half)[1]
    assert not torch.equal(alone[1], spoilt[1])
    assert torch.equal(alone[2], spoilt[2])


def command(teacher_file, photos, work, until):
    options = {name.replace("_", "-"): value for name, value in vars(RECIPE).items()}
    options |= {"teacher": teacher_file, "images": photos, "work": work, "until": until, "cooling": 16, "minutes": 0}
    return [str(word) for name, value in options.items() for word in (f"--{name}", value)]


def test_an_interrupted_training_continues_to_the_same_student(teacher_file, photos, tmp_path, monkeypatch):
    threads = torch.get_num_threads()
    make_embedded.main(command(teacher_file, photos, tmp_path / "whole", 64))

    step, steps = make_embedded.Training.step, []

    def stopped(training, views):
        if len(steps) == 3:
            raise KeyboardInterrupt
        steps.append(training.done)
        return step(training, views)

    monkeypatch.setattr(make_embedded.Training, "step", stopped)
    for _ in range(2):
        steps.clear()
        with pytest.raises(KeyboardInterrupt):
            make_embedded.main(command(teacher_file, photos, tmp_path / "cut", 64))
    assert steps == [24, 32, 40]
    monkeypatch.undo()
    make_embedded.main(command(teacher_file, photos, tmp_path / "cut", 64))
    torch.set_num_threads(threads)

    whole, cut = (load_backbone(tmp_path / name / "student.safetensors") for name in ("whole", "cut"))
    assert whole.fingerprint == cut.fingerprint
    assert (whole.layers, whole.dim, whole.image_size) == (2, 16, 32)
    described = json.loads((tmp_path / "cut" / "student.safetensors.json").read_text())
    assert (described["views"], described["images"], described["cooled"]) == (64, 18, 1.0)
    level = torch.load(tmp_path / "cut" / "training.pt", weights_only=True)
    assert level["done"] == 48  # where the rate began to fall: a longer training goes on from here


def test_validation_compares_the_student_with_the_teacher_on_photos_held_out(teacher_file, photos, tmp_path):
    threads = torch.get_num_threads()
    options = command(teacher_file, photos, tmp_path, 16)
    make_embedded.main(options)
    make_embedded.main([*options, "--validate"])
    torch.set_num_threads(threads)
    measured = json.loads((tmp_path / "validation-16.json").read_text())["measured"]
    teacher, student = measured[str(teacher_file)], measured[str(tmp_path / "student.safetensors")]
    assert teacher["cosine, class"] == pytest.approx(1, abs=1e-4)
    assert student["cosine, class"] < 0.99


@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (5, 5)])
def test_orthogonal_keeps_directions_and_evens_out_their_lengths(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    made = u.T @ make_embedded.orthogonal(matrix) @ v.T
    assert made.shape == (min(shape),) * 2
    assert torch.allclose(made, made.diagonal().diag(), atol=1e-4)
    assert ((made.diagonal() > 0.3) & (made.diagonal() < 1.3)).all()


def test_ridge_and_prototypes_find_classes_that_lie_apart():
    labels = np.repeat(np.arange(6), 20)
    places = torch.nn.functional.one_hot(torch.from_numpy(labels), 8).float()[:, None].expand(-1, 4, -1)
    found = make_embedded.accuracies(places + 0.01 * torch.randn(places.shape), labels, episodes=3)
    assert found == {"prototypes": 100.0, "depth_ridge": 100.0}


def test_a_folder_without_photos_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="0 images below"):
        list(make_embedded.photos_in([tmp_path]))
