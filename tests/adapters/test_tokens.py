"""Tokens: written out, over every other kind, stored, merged and taken off again."""

import pytest
import torch

from cplsr import attach, load_adapter, load_backbone, merge, save_adapter
from cplsr.adapters.attach import adapter_of
from cplsr.adapters.kinds import KINDS
from cplsr.adapters.tokens import Tokens, add_tokens, remove_tokens
from cplsr.errors import InputError

UNDER = sorted(set(KINDS) - {"tokens"})


def disturb(parameters, seed=3):
    generator = torch.Generator().manual_seed(seed)
    for parameter in parameters:
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)


def images(count=2):
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_they_change_the_class_token_and_stand_behind_it_in_the_first_block(backbone):
    tokens = add_tokens(backbone, registers=3)
    disturb(tokens.own())
    found = backbone(images())
    offset, registers = tokens.offset, tokens.registers
    remove_tokens(backbone)

    def between(layer, x):
        if layer > 0:
            return x
        return torch.cat([x[:, :1] + offset, registers.expand(2, -1, -1), x[:, 1:]], dim=1)

    torch.testing.assert_close(found, backbone(images(), between=between))
    assert not torch.allclose(found, backbone(images()), atol=1e-3)
    assert found.shape == (2, 64)


@pytest.mark.parametrize("kind", UNDER)
def test_over_another_adapter_both_act_and_that_one_stays_as_it_is(backbone, kind, tmp_path):
    attach(backbone, kind)
    if kind != "full":
        disturb(adapter_of(backbone).parameters())
    under, alone = backbone.adapter, backbone(images())
    before = {name: tensor.clone() for name, tensor in under.state_dict().items()}
    tokens = add_tokens(backbone)
    torch.testing.assert_close(backbone(images()), alone)  # a class token that has not learned changes nothing
    disturb(tokens.own())
    both = backbone(images())
    assert not torch.allclose(both, alone, atol=1e-3)

    save_adapter(backbone, tmp_path / "stored")
    fresh = load_adapter(load_backbone(backbone.source, heads=2), tmp_path / "stored")
    torch.testing.assert_close(fresh(images()), both)
    assert fresh.adapter_fingerprint == backbone.adapter_fingerprint

    if kind in ("attn_scale", "soft_prompts"):
        with pytest.raises(InputError, match="cannot be merged"):
            merge(backbone)
    else:
        torch.testing.assert_close(merge(backbone)(images()), both, atol=1e-4, rtol=1e-4)
    assert remove_tokens(backbone).adapter is under
    assert all(torch.equal(tensor, before[name]) for name, tensor in under.state_dict().items())
    torch.testing.assert_close(backbone(images()), alone)


def test_registers_cannot_be_merged_and_nothing_is_not_enough(backbone):
    add_tokens(backbone, registers=2, class_token=False)
    assert adapter_of(backbone).offset is None
    with pytest.raises(InputError, match="registers have no equivalent"):
        merge(backbone)
    assert remove_tokens(backbone).adapter is None
    assert remove_tokens(backbone).adapter is None
    with pytest.raises(InputError, match="there is nothing to learn"):
        add_tokens(backbone, class_token=False)
    attach(backbone, "attn_scale")
    with pytest.raises(InputError, match="give registers=0"):
        add_tokens(backbone, registers=1)
    assert not isinstance(backbone.adapter, Tokens)


def test_every_family_takes_registers(family_folder):
    backbone = load_backbone(family_folder)
    plain = backbone(images())
    disturb(add_tokens(backbone, registers=2).own())
    changed = backbone(images())
    assert changed.shape == plain.shape
    assert not torch.allclose(changed, plain, atol=1e-4)
