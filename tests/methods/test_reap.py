"""REAP: which patches are replaced, by what, and that nothing of it is there at test time."""

from functools import partial

import pytest
import torch
from oracles.tiny_episode import losses_while_training, prepared_objective, tiny_episode
from torch.nn.functional import cross_entropy

from cplsr import attach, load_backbone
from cplsr.errors import InputError
from cplsr.methods.reap import PACE, RandomRegisters, kept_patches, patch_cosines, perturb

prepared = partial(prepared_objective, RandomRegisters)


def test_cosines_of_patches_freed_of_their_mean():
    images = torch.randn(2, 3, 8, 12, generator=torch.Generator().manual_seed(0))
    images[0, :, :4, 4:8] = 2.0  # a patch of one color
    found = patch_cosines(images, 4)
    for image in range(2):
        patches = [images[image, :, top : top + 4, left : left + 4] for top in (0, 4) for left in (0, 4, 8)]
        for i, one in enumerate(patches):
            for j, other in enumerate(patches):
                a, b = one - one.mean(), other - other.mean()
                length = float(a.norm() * b.norm())
                wanted = float((a * b).sum()) / length if length > 0 else 0.0
                assert found[image, i, j].item() == pytest.approx(wanted, abs=1e-6)


def literal_kept(alike, anchors, seed):
    """One image and one patch after the other."""
    batch, patches, _ = alike.shape
    draws = torch.rand(2, batch, patches, generator=torch.Generator().manual_seed(seed))
    count = patches - int(patches * (1 - anchors))
    kept, returned = [], []
    for image in range(batch):
        by_draw = sorted(range(patches), key=lambda p, image=image: draws[0, image, p].item())
        chosen = by_draw[patches - count :]
        lost = [p for p in range(patches) if any(alike[image, a, p] for a in chosen)]
        kept.append([p for p in range(patches) if p not in lost])
        returned.append(sorted(lost, key=lambda p, image=image: draws[1, image, p].item()))
    most = max(len(one) for one in kept)
    whole = [one + back[: most - len(one)] for one, back in zip(kept, returned, strict=True)]
    return torch.tensor([[p in one for p in range(patches)] for one in whole])


@pytest.mark.parametrize("anchors", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("threshold", [0.0, 0.3])
def test_patches_unlike_all_anchors_stay_and_all_images_keep_equally_many(anchors, threshold):
    for seed in range(5):
        images = torch.randn(4, 3, 12, 12, generator=torch.Generator().manual_seed(seed))
        alike = patch_cosines(images, 3) > threshold
        kept = kept_patches(alike, anchors, torch.Generator().manual_seed(seed))
        assert torch.equal(kept, literal_kept(alike, anchors, seed))
        assert kept.sum(1).unique().numel() == 1
        assert kept.sum(1)[0] <= int(16 * (1 - anchors))  # an anchor is like itself


def test_noise_takes_the_place_of_patches_and_registers_stand_before_them():
    stream = torch.Generator().manual_seed(1)
    tokens = torch.randn(3, 2 + 4, 5, generator=stream)
    kept = torch.tensor([[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0]]).bool()
    found = perturb(tokens, kept, 7, torch.tensor(0.5), torch.Generator().manual_seed(9))
    noise = torch.randn(3, 7 + 4, 5, generator=torch.Generator().manual_seed(9))
    assert found.shape == (3, 2 + 7 + 4, 5)
    assert torch.equal(found[:, :2], tokens[:, :2])
    assert torch.equal(found[:, 2:9], 0.5 * noise[:, :7])
    for image in range(3):
        for patch in range(4):
            wanted = tokens[image, 2 + patch] if kept[image, patch] else 0.5 * noise[image, 7 + patch]
            assert torch.equal(found[image, 9 + patch], wanted)


def test_the_loss_is_that_of_the_perturbed_tokens(backbone):
    objective, episode = prepared(backbone, registers=3), tiny_episode()
    found, _ = objective.loss(backbone, tiny_episode(), None)
    draws = torch.Generator().manual_seed(0)
    kept = kept_patches(patch_cosines(backbone.normalize(episode.images), 8) > 0.3, 0.7, draws)

    def between(layer, tokens):
        return perturb(tokens, kept, 3, torch.tensor(0.1), draws) if layer == 0 else tokens

    rows = backbone(episode.images, between)
    labels = torch.tensor([1, 2, 3]).repeat_interleave(5)
    torch.testing.assert_close(found, cross_entropy(objective.classifier(rows), labels))
    assert found != objective.loss(backbone, tiny_episode(draws=1), None)[0]


def test_the_spread_is_learned_at_a_thousandth_of_the_classifiers_rate(backbone):
    objective = prepared(backbone)
    assert objective.spread.item() == pytest.approx(0.1)
    objective.loss(backbone, tiny_episode(), None)[0].backward()
    assert objective.change.grad.abs() > 0
    torch.optim.AdamW(objective.parameters(), lr=1e-3).step()
    assert abs(objective.spread.item() - 0.1) == pytest.approx(PACE * 1e-3, rel=0.1)


@pytest.mark.parametrize("kind", ["full", "coalescent", "soft_prompts"])
def test_training_lowers_the_loss_and_test_time_has_neither_noise_nor_registers(checkpoint_file, kind):
    backbone = attach(load_backbone(checkpoint_file, heads=2), kind)
    objective, counts = RandomRegisters(), []
    losses = losses_while_training(backbone, objective, steps=4, lr=1e-3)
    assert losses[-1] < losses[0]
    images = tiny_episode().images
    once, again = backbone(images), backbone(images, lambda layer, x: counts.append(x.shape[1]) or x)
    torch.testing.assert_close(once, again)
    assert counts[0] == 17


def test_wrong_options_and_a_fixed_number_of_tokens_are_refused(backbone):
    with pytest.raises(InputError, match="anchors is 2"):
        RandomRegisters(anchors=2.0)
    attach(backbone, "attn_scale")
    with pytest.raises(InputError, match="attn_scale has factors for 17 tokens, but 33 are"):
        prepared(backbone).loss(backbone, tiny_episode(), None)
