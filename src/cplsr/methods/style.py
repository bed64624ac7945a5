"""The style of a token grid: mean and standard deviation of every channel over an image's patch tokens.

Convolutional methods take style from a feature map (channels, height, width). On a transformer the patch tokens between
two blocks are that map; class, register and prompt tokens are left as they are.

`prefix` is the place of the first patch token. Counted from the end, as minus the number of patches, it also holds
where an adapter has put prompts before them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch
from jaxtyping import Float
from torch import Tensor

from cplsr.backbones.backbone import Between

EPSILON = 1e-5
"""Added to a variance before its root is taken."""

Tokens = Float[Tensor, "batch tokens dim"]
Style = tuple[Float[Tensor, "batch 1 dim"], Float[Tensor, "batch 1 dim"]]
"""Mean and standard deviation."""


def stages(layers: int, *, fourth: bool = False) -> tuple[int, ...]:
    """The blocks that follow stages 1, 2 and 3 of four: where features are changed.

    A convolutional network has stages by its strides; a transformer's are a quarter of its blocks each. What `fourth`
    adds is the last block: behind it, where the fourth stage ends, only the class token is left of the feature map.
    """
    ends = {round(stage * layers / 4) for stage in (1, 2, 3)}
    return tuple(sorted((ends | {layers - 1} if fourth else ends) - {0, layers}))


def entering(layers: Collection[int], change: Callable[[Tensor], Tensor]) -> Between:
    """The tokens that enter some blocks, changed; those of the other blocks as they are."""
    return lambda layer, tokens: change(tokens) if layer in layers else tokens


def style_of(tokens: Tokens, prefix: int) -> Style:
    """Mean and standard deviation (population, with ε) over the patch tokens."""
    patches = tokens[:, prefix:]
    variance = patches.var(dim=1, keepdim=True, unbiased=False)
    return patches.mean(dim=1, keepdim=True), (variance + EPSILON).sqrt()


def with_style(tokens: Tokens, prefix: int, style: Style) -> Tokens:
    """AdaIN: patch tokens freed of their own style and given another, σ'(x − μ)/σ + μ'."""
    mean, deviation = style_of(tokens, prefix)
    new_mean, new_deviation = style
    patches = (tokens[:, prefix:] - mean) / deviation * new_deviation + new_mean
    return torch.cat([tokens[:, :prefix], patches], dim=1)
