"""AttnTemp: random temperatures in training, the switch at test time."""

from functools import partial

import torch
from oracles.functional_vit import literal_network
from oracles.tiny_episode import losses_while_training, prepared_objective, tiny_episode
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

from cplsr import attach, load_backbone
from cplsr.adapters.attention_temperature import at_temperatures
from cplsr.backbones.block_points import BlockPoints
from cplsr.methods.attn_temp import METHOD, RandomTemperatures
from cplsr.methods.registry import learning_kind, trained_kind

LABELS = torch.tensor([1, 2, 3]).repeat_interleave(5)

prepared = partial(prepared_objective, RandomTemperatures)


def test_the_loss_is_that_of_a_network_with_some_blocks_uniform(checkpoint_file):
    backbone = load_backbone(checkpoint_file, heads=2, mean=(0.5,) * 3, std=(0.5,) * 3)
    objective, tensors = prepared(backbone, chance=0.5), load_file(checkpoint_file)
    seen = set()
    for draws in range(6):
        uniform = torch.rand(2, generator=torch.Generator().manual_seed(draws)) < 0.5
        seen.add(tuple(uniform.tolist()))
        images = tiny_episode().images / 255 * 2 - 1
        rows = literal_network(tensors, images, scores=lambda layer, _, m, off=uniform: 0 * m if off[layer] else m)[
            :, 0
        ]
        wanted = cross_entropy(rows @ objective.classifier.weight.T, LABELS)
        torch.testing.assert_close(objective.loss(backbone, tiny_episode(draws=draws), None)[0], wanted)
    assert len(seen) > 2


def test_each_block_is_uniform_with_the_chance_of_four_in_five(backbone):
    objective, drawn = prepared(backbone), []

    def embed(images, between, around):
        drawn.append(around(BlockPoints()).temperatures)
        return torch.zeros(15, 64)

    for draws in range(200):
        objective.loss(embed, tiny_episode(draws=draws), None)
    temperatures = torch.tensor(drawn)
    assert set(temperatures.flatten().tolist()) == {0.0, 1.0}
    assert ((temperatures == 0).float().mean(0) - 0.8).abs().max() < 0.09
    assert 0.55 < (temperatures == 0).all(1).float().mean() < 0.75  # 0.64: blocks are drawn apart


def test_the_switch_is_off_in_training_and_on_at_test_time(checkpoint_file):
    switched, plain = load_backbone(checkpoint_file, heads=2), load_backbone(checkpoint_file, heads=2)
    attach(switched, "attention_temperature", adapter="residual", temperature=0.1, class_token_blocks=0)
    attach(plain, "residual")
    objective = prepared(plain, chance=0.5)
    for draws in range(3):
        losses = [objective.loss(one, tiny_episode(draws=draws), None)[0] for one in (switched, plain)]
        assert losses[0] == losses[1]
    images = tiny_episode().images
    assert not torch.allclose(switched(images), plain(images), atol=1e-2)
    assert torch.equal(switched(images, None, lambda points: at_temperatures(points, [1.0, 1.0])), plain(images))


def test_uniform_blocks_teach_queries_and_keys_nothing(backbone):
    attach(backbone, "attention_temperature", adapter="full")
    objective = prepared(backbone, chance=1.0)
    objective.loss(backbone, tiny_episode(), None)[0].backward()
    for block in backbone.blocks:
        assert not block.attention.q_proj.weight.grad.any()
        assert not block.attention.k_proj.weight.grad.any()
        assert block.attention.v_proj.weight.grad.any()


def test_training_lowers_the_loss(backbone):
    attach(backbone, "attention_temperature", adapter="full")
    losses = losses_while_training(backbone, RandomTemperatures(), steps=4, lr=1e-3)
    assert losses[-1] < losses[0]


def test_what_is_trained_is_carried_by_the_switch():
    kind = "attention_temperature"
    assert trained_kind(METHOD, "auto", "coalescent", {}) == (kind, {"adapter": "full", "adapter_options": {}})
    given = {"adapter": "lora", "adapter_options": {"rank": 2}}
    assert trained_kind(METHOD, "adapter", "lora", {"rank": 2}) == (kind, given)
    own = {"temperature": 0.5, "adapter": "residual"}
    assert trained_kind(METHOD, "adapter", kind, own) == (kind, own)
    assert learning_kind(kind, own) == "residual"
    assert learning_kind("lora", {"rank": 2}) == "lora"
